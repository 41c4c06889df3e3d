// Random programs from seeds.
#ifndef CUHEAP_TESTS_CAMPAIGNS_RANDOM_GENERATE_H_
#define CUHEAP_TESTS_CAMPAIGNS_RANDOM_GENERATE_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "tests/campaigns/random/program.h"

namespace cuheap::campaigns {

// What programs of a profile are about.
struct Profile {
  std::string_view name;
  int devices = 1;
  std::uint64_t memory = 0;      // of each device in bytes, if programs fill it; else as large as it likes
  int threads = 4;               // at most
  int operations = 120;          // about, over all threads
  bool stream_ordered = false;   // blocks come from cuMemAllocAsync
  double share = 0.85;           // of those, then
  bool pools = false;            // pools are made, trimmed, made current, destroyed
  bool virtual_memory = false;   // the program maps memory itself
  bool host_memory = false;      // managed, pinned and registered memory, host functions
  bool default_streams = false;  // per-thread default streams and all names of the legacy one
  bool graphs = false;           // work is captured, instantiated and launched
  bool processes = false;        // another process opens blocks by their IPC handles
  bool contexts = false;         // several contexts on a device; destroyed and reset
  bool lost = false;             // ends with an error that stays: a process of its own for each
};

std::span<const Profile> Profiles();
const Profile* FindProfile(std::string_view name);  // null: none

Program Generate(std::uint64_t seed, const Profile& profile);

}  // namespace cuheap::campaigns

#endif  // CUHEAP_TESTS_CAMPAIGNS_RANDOM_GENERATE_H_
