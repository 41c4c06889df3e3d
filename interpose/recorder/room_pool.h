// Room for work that is too large for the stacks of some threads: 16 KiB is a whole stack where threads are many.
#ifndef CUHEAP_INTERPOSE_RECORDER_ROOM_POOL_H_
#define CUHEAP_INTERPOSE_RECORDER_ROOM_POOL_H_

#include <atomic>
#include <cstddef>
#include <type_traits>

#include "interpose/recorder/own_memory.h"

namespace cuheap::recorder {

// Rooms that calls borrow. As many are kept as there are places; each call looks into its thread's place first, so that
// a thread mostly gets the room it had before and takes it from nobody. No lock: a signal handler or a forked child
// finds the places either full or empty. A room that was lent when the process forked is lost to the child, no more.
template <typename Room>
class RoomPool {
  static_assert(std::is_trivial_v<Room>);
  static constexpr unsigned kPlaces = 32;

 public:
  constexpr RoomPool() = default;

  class Loan {
   public:
    // home: any number that the calling thread keeps.
    Loan(RoomPool& pool, unsigned home) : pool_(pool), home_(home), room_(pool.Take(home)) {}
    ~Loan() {
      if (room_ != nullptr) pool_.GiveBack(home_, room_);
    }
    Loan(const Loan&) = delete;
    Loan& operator=(const Loan&) = delete;
    // nullptr: no memory. What is in it is left from others.
    Room* get() const { return room_; }

   private:
    RoomPool& pool_;
    const unsigned home_;
    Room* const room_;
  };

 private:
  struct alignas(64) Place {
    std::atomic<Room*> room = nullptr;
  };

  Room* Take(unsigned home) {
    for (unsigned i = 0; i < kPlaces; ++i) {
      std::atomic<Room*>& place = places_[(home + i) % kPlaces].room;
      if (place.load(std::memory_order_relaxed) == nullptr) continue;
      if (Room* room = place.exchange(nullptr, std::memory_order_acquire); room != nullptr) return room;
    }
    return static_cast<Room*>(MapMemory(sizeof(Room)));
  }

  void GiveBack(unsigned home, Room* room) {
    for (unsigned i = 0; i < kPlaces; ++i) {
      Room* none = nullptr;
      if (places_[(home + i) % kPlaces].room.compare_exchange_strong(none, room, std::memory_order_release,
                                                                     std::memory_order_relaxed)) {
        return;
      }
    }
    UnmapMemory(room, sizeof(Room));
  }

  Place places_[kPlaces] = {};
};

}  // namespace cuheap::recorder

#endif  // CUHEAP_INTERPOSE_RECORDER_ROOM_POOL_H_
