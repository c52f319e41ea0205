// Numbers of values, nodes, scopes and storages that do not mix, and vectors indexed by them.
#pragma once
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

namespace pal {

// An absent operand, an unread output, no producer: compares equal to the id (or number) -1.
struct None {
  constexpr operator int32_t() const { return -1; }
};
inline constexpr None kNone;

// A number of one kind of thing. It converts to and from plain integers, but not into an id of
// another kind: a ValueId where a NodeId is wanted does not compile.
template <class Kind> class Id {
 public:
  constexpr Id() = default;  // kNone
  constexpr Id(int32_t number) : number_(number) {}
  constexpr Id(None) {}

  constexpr operator int32_t() const { return number_; }
  constexpr Id& operator++() { return ++number_, *this; }
  constexpr Id& operator--() { return --number_, *this; }
  constexpr Id operator++(int) { return number_++; }
  constexpr Id operator--(int) { return number_--; }
  constexpr Id& operator+=(int32_t more) { return number_ += more, *this; }

 private:
  int32_t number_ = -1;
};

using ValueId = Id<struct Value>;
using NodeId = Id<struct Node>;
using StorageId = Id<struct Storage>;
using ScopeId = Id<struct Scope>;

// The ids from 0 up to a count: `for (NodeId n : program.nodes.ids())`.
template <class I> class IdRange {
 public:
  struct Iterator {
    I id;
    constexpr I operator*() const { return id; }
    constexpr Iterator& operator++() { return ++id, *this; }
    constexpr bool operator!=(const Iterator& other) const { return id != other.id; }
  };
  explicit constexpr IdRange(size_t count) : count_(int32_t(count)) {}
  constexpr Iterator begin() const { return {0}; }
  constexpr Iterator end() const { return {count_}; }

 private:
  I count_;
};

// A vector with one element for each id of a kind.
template <class I, class T> class Indexed : public std::vector<T> {
 public:
  using std::vector<T>::vector;
  using Index = I;

  auto& operator[](I id) { return this->data()[checked(id)]; }
  const auto& operator[](I id) const { return this->data()[checked(id)]; }
  IdRange<I> ids() const { return IdRange<I>(this->size()); }
  I next_id() const { return I(int32_t(this->size())); }  // of what is appended next
  // Appends an element; returns its id.
  I add(T element) {
    this->push_back(std::move(element));
    return int32_t(this->size()) - 1;
  }

 private:
  // In builds with PAL_CHECK_IDS (cmake/flags.cmake) an id that no element has ends the program.
  size_t checked(I id) const {
    const auto number = size_t(int32_t(id));  // of kNone: beyond every size
#ifdef PAL_CHECK_IDS
    assert(number < this->size());
#endif
    return number;
  }
};
template <class T> using ByValue = Indexed<ValueId, T>;
template <class T> using ByNode = Indexed<NodeId, T>;
template <class T> using ByStorage = Indexed<StorageId, T>;

}  // namespace pal

template <class Kind> struct std::numeric_limits<pal::Id<Kind>> : std::numeric_limits<int32_t> {};
template <class Kind> struct std::hash<pal::Id<Kind>> {
  size_t operator()(pal::Id<Kind> id) const { return std::hash<int32_t>()(id); }
};
