# pal_rooms(OUT EXTENSION FILES...): a generated file for each folder that FILES stand in, which
# includes that folder's FILES; OUT is the list of them. A compiler takes longer to read the headers
# of a .cu file than to compile its kernels, so the files of a room are compiled together. The names
# that they define must differ, those in unnamed namespaces too.
function(pal_rooms out extension)
  set(rooms)
  foreach(file ${ARGN})
    file(RELATIVE_PATH path ${CMAKE_SOURCE_DIR} ${file})
    get_filename_component(folder ${path} DIRECTORY)
    string(REPLACE "/" "_" room ${folder})
    if(NOT room IN_LIST rooms)
      list(APPEND rooms ${room})
      set(includes_of_${room})
    endif()
    string(APPEND includes_of_${room} "#include \"${path}\"\n")
  endforeach()
  set(files)
  foreach(room ${rooms})
    set(file ${CMAKE_BINARY_DIR}/rooms/${room}.${extension})
    file(CONFIGURE OUTPUT ${file} CONTENT "${includes_of_${room}}" @ONLY)
    list(APPEND files ${file})
  endforeach()
  set(${out} ${files} PARENT_SCOPE)
endfunction()
