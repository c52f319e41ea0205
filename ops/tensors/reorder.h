// Moves a value between the plain layout and the blocked ones that kernels prefer.
#pragma once
#include <functional>

#include "core/op.h"
#include "core/val.h"

namespace pal {

extern const OpDef reorder_op;

// A layout as an attribute: compared and hashed by its tag, printed as its size behind the tag.
struct LayoutField {
  Layout layout;
  bool operator==(const LayoutField& other) const {
    if (!layout || !other.layout) return layout == other.layout;
    return layout->tag == other.layout->tag && layout->bytes == other.layout->bytes;
  }
  explicit operator int64_t() const { return layout ? layout->bytes : 0; }
  explicit operator size_t() const { return layout ? std::hash<std::string>{}(layout->tag) : 0; }
};

struct ReorderAttrs {
  Layout to = nullptr;  // null: plain
  auto fields() const { return std::tuple{field(to ? to->tag.c_str() : "plain", LayoutField{to})}; }
};

// x, the same elements, in layout `to` (null: plain).
Val reorder(Val x, const Layout& to);

}  // namespace pal
