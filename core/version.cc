// The build id, from the note that the linker writes into a program.
#include "core/version.h"

#include <elf.h>
#include <link.h>

#include <cstring>

namespace pal {
namespace {

constexpr size_t round_to_4(size_t bytes) { return (bytes + 3) / 4 * 4; }

std::string id_among(const char* notes, size_t bytes) {
  for (size_t at = 0; at + sizeof(ElfW(Nhdr)) <= bytes;) {
    ElfW(Nhdr) note;
    std::memcpy(&note, notes + at, sizeof note);
    const char* const name = notes + at + sizeof note;
    const char* const content = name + round_to_4(note.n_namesz);
    const bool of_gnu = note.n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0;
    if (of_gnu && note.n_type == NT_GNU_BUILD_ID) return {content, note.n_descsz};
    at += sizeof note + round_to_4(note.n_namesz) + round_to_4(note.n_descsz);
  }
  return "";
}

// Of the program itself, which comes first.
int take_id(dl_phdr_info* info, size_t, void* id) {
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = info->dlpi_phdr[i];
    if (part.p_type != PT_NOTE) continue;
    const auto* notes = reinterpret_cast<const char*>(info->dlpi_addr + part.p_vaddr);
    const std::string found = id_among(notes, part.p_memsz);
    if (!found.empty()) *static_cast<std::string*>(id) = found;
  }
  return 1;
}

}  // namespace

std::string build_id() {
  std::string id, digits;
  dl_iterate_phdr(take_id, &id);
  for (const char byte : id) {
    const auto value = static_cast<unsigned char>(byte);
    digits += "0123456789abcdef"[value >> 4];
    digits += "0123456789abcdef"[value & 15];
  }
  return digits;
}

}  // namespace pal
