// When the maps of a sketch (memory/front/sketch.h) that are copied to the host are away.
//
// Copies leave one after the other as maps are made, and bytes are there until their copy is done;
// they come back one after the other, each as late as its reader allows. Each has to wait for the
// one before it alone: after a change copies are looked at from the first that it is about, and one
// that begins when it did, among places that are the same, is left as it is.
#pragma once
#include <cstdint>
#include <vector>

#include "memory/front/sketch_slots.h"
#include "memory/front/sketch_table.h"

namespace pal {

class SketchLink {
 public:
  SketchLink(const SketchTable& table, const SketchSlots& slots);

  // Clones before that node came or went.
  void change_slot(int32_t position);
  // The map goes away: when it would be there before and after, if copies took no time.
  void send(StorageId s, const PlaceSpan& kept, const PlaceSpan& back);
  // It does not, or no longer.
  void drop(StorageId s);

  // Maps that may be there for other spans than before.
  const std::vector<StorageId>& settle();
  // When it is there before and after, by the last settle(); the second is empty where it never
  // leaves.
  const PlaceSpan& kept(StorageId s) const { return trips_[s].now_kept; }
  const PlaceSpan& back(StorageId s) const { return trips_[s].now_back; }

 private:
  struct Trip {
    PlaceSpan kept, back;  // as they are asked for
    PlaceSpan now_kept, now_back;
    int64_t takes = 0;                  // ticks, each way
    int64_t gone = 0, called = 0;       // when the link is done, and when it begins with it
    Place leaves = 0;                   // until then it is there
    size_t gone_at = 0, called_at = 0;  // the places of these times
    size_t next = 0;  // the place after it leaves, where that was asked for; 0: not
    bool is_there = false, is_new = false;  // is_new: look at it, whatever its times
  };
  struct Homeward {
    Place begin;  // by when it has to be back
    StorageId map;
  };

  bool leaves_before(StorageId a, StorageId b) const {
    return t_.made[a] != t_.made[b] ? t_.made[a] < t_.made[b] : a < b;
  }
  std::vector<StorageId>::iterator in_leaving(StorageId s);
  std::vector<Homeward>::iterator in_homeward(StorageId s);
  void insert_homeward(StorageId s);
  void erase_homeward(StorageId s);
  size_t list_places();
  void leave(size_t known);
  void come_home(size_t known);
  size_t index_of(Place place) const;
  size_t index_at(int64_t ticks, size_t near) const;

  const SketchTable& t_;
  const SketchSlots& slots_;

  // All places in their order, with the times when they begin.
  size_t listed_ = 0;  // places up to that position
  size_t count_ = 0;
  std::vector<Place> places_;
  std::vector<int64_t> start_;
  std::vector<size_t> index_of_node_;
  ByNode<size_t> index_of_clone_;

  ByStorage<Trip> trips_;
  std::vector<StorageId> leaving_;               // as they leave
  std::vector<Homeward> homeward_;               // the last one first
  size_t from_leaving_ = 0, from_homeward_ = 0;  // before these nothing was sent or dropped
  std::vector<StorageId> changed_;
};

}  // namespace pal
