// A certified lower bound of a step's predicted time within a number of bytes.
//
// It covers every plan that runs each node of the recorded step once, and forward nodes again as
// often as it likes, in any order that the operands allow; that keeps values as they are or, where
// that is all that is asked, as bits; that fuses as the step's rewrites say; and that, where the
// device has a link, copies what nodes made to the host and back at any time. Times are those of
// the roofline and the profile, bytes those that are alive. It does not cover codes that lose or
// pack values, nodes in parts of the batch, or another recording. With BoundOptions::any_order off
// it covers the order of the program alone.
//
// It is the value of a Lagrangian dual of "at every mark at most so many bytes": for each vector
// of prices, the time of all nodes, and a minimum cut, less the budget at its price. Each such
// value is a bound, whatever the prices are; they are found by column generation, without a clock.
// docs/bound.md proves each relaxation.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "memory/front/bound_cut.h"

namespace pal {

class Bound {
 public:
  // `recorded`: before any pass. What the options ask of recomputation, encodings, swapping and a
  // budget does not count; the profile's link does.
  Bound(const Program& recorded, const StateLayout& layout, const CompileOptions& options,
        const DeviceProfile& device, const BoundOptions& what = {});
  Bound(const Bound&) = delete;
  Bound& operator=(const Bound&) = delete;

  // What no plan is faster than, whatever its bytes: each node once, as its cheapest variant.
  double least_ms() const { return least_ms_; }
  // What no plan goes below, however slow it is.
  int64_t least_bytes() const { return least_bytes_; }

  // Looks for prices for so many bytes: at most so many cuts. What is found holds for other bytes,
  // too, and is where the next call begins.
  void sharpen(int64_t bytes, int cuts);
  // The best bound known of plans of at most so many bytes. Infinite below least_bytes().
  double ms(int64_t bytes) const;

 private:
  // A row of the dual, with a price z. Without a link: the bytes needed at a mark fit. With one:
  // the step takes no less than what needs to be away then takes to be copied, and `begin`.
  struct Row {
    size_t mark;
    double rate;   // 1; with a link ms for a byte
    double begin;  // ms
  };
  // A known bound: at_zero - slope * bytes.
  struct Line {
    double at_zero, slope;
  };

  void choose_marks();
  void add_rows();
  // What the rows gain by an answer, as parts of the least time.
  std::vector<double> gains(const BoundCut& answer, int64_t bytes) const;
  // The bound of these prices, in ms; keeps it and its answer.
  double price(const std::vector<double>& z, int64_t bytes);

  const Program step_;  // as all plans begin
  const Program parts_;
  const LeastTimes times_;
  const BoundGraph graph_;
  const double link_;  // bytes/ms; 0: none
  double least_ms_ = 0;
  int64_t least_bytes_ = 0;
  std::vector<Mark> marks_;
  std::optional<BoundCutter> cutter_;
  std::vector<Row> rows_;
  std::vector<BoundCut> known_;  // answers so far
  std::vector<Line> lines_;
  std::vector<double> prices_;  // ms for a byte by row, without a link: the last ones
};

// Bounds for several budgets, in one go. What the options ask for counts as above.
struct Bounds {
  std::vector<double> ms;   // by budget
  int64_t least_bytes = 0;  // Bound's
};
Bounds bounds_of(const Program& recorded, const StateLayout& layout, const CompileOptions& options,
                 const DeviceProfile& device, const std::vector<int64_t>& budgets);

}  // namespace pal
