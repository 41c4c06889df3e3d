// How programs are made (generate*.cc). Every operation is asked of the model first: what is not legal is not emitted.
#ifndef CUHEAP_TESTS_CAMPAIGNS_RANDOM_GENERATOR_H_
#define CUHEAP_TESTS_CAMPAIGNS_RANDOM_GENERATOR_H_

#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "tests/campaigns/random/generate.h"
#include "tests/campaigns/random/model.h"

namespace cuheap::campaigns {

inline constexpr std::uint64_t kMaxLive = 32u << 20;  // bytes that a program holds at any time, about

class Generator {
 public:
  Generator(std::uint64_t seed, const Profile& profile);
  Program Run();

 private:
  // What the generator means to do with a block, beside what the model knows.
  struct Plan {
    std::int64_t home = 0;  // the stream that most of its work is in, where streams have little to do with each other
    int owner = 0;          // the thread that may touch it in this phase
    bool watched = false;   // not touched again before it is read at the end of the phase
  };

  // generate.cc
  void SetUp();
  void Phase(bool last);
  void Interlude();  // one thread alone: contexts and pools come and go
  void Step();
  void ReadRest(bool last);
  void CopyOutAll();

  // generate_memory.cc
  bool Allocate();
  bool Allocate(std::uint64_t bytes, std::int64_t stream, bool watched, std::int64_t pool);
  bool AllocateHostMemory();
  bool Clear(std::int64_t block, std::int64_t stream);
  bool Free();
  bool FreeBlock(std::int64_t block, bool in_stream);
  bool FreeAndGoOn(std::int64_t block);
  void ReuseElsewhere(std::uint64_t bytes, std::int64_t pool, std::int64_t freed_in);
  void ReadWhatIsKnown();
  bool VirtualMemory();
  bool Map(std::int64_t physical);
  bool PoolCalls();
  bool ContextCalls();

  // generate_work.cc
  bool Work();
  bool WorkOn(std::int64_t block);
  bool CopyBetween(std::int64_t from);
  bool SynchronousWork();
  bool HostWork();
  bool Elsewhere();
  bool Graphs();
  bool Capture(std::int64_t graph);
  bool Launch(std::int64_t graph);
  bool CopyOut();
  bool CopyOut(std::int64_t block);
  bool ReadSome();
  bool Synchronize();
  bool DestroyStream();
  bool Ask();
  bool OrderAfter(std::int64_t stream, std::int64_t block, bool writes);
  bool OrderHostAfter(std::int64_t block, bool writes);
  bool OrderHostAfter(Moment moment);
  bool WaitForMoment(std::int64_t stream, Moment moment);
  std::int64_t StreamThatKnows(Moment moment);
  void Enter(std::int64_t context);
  bool EnterFor(std::int64_t block);

  int Between(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  bool Chance(double p) { return std::uniform_real_distribution<double>(0, 1)(random_) < p; }
  std::int64_t Value() { return static_cast<std::int64_t>(static_cast<std::uint32_t>(random_())); }
  template <class Item>
  const Item& OneOf(const std::vector<Item>& items) {
    return items[static_cast<std::size_t>(Between(0, static_cast<int>(items.size()) - 1))];
  }

  bool Emit(OpKind kind, std::array<std::int64_t, 6> args = {});
  std::uint64_t PickSize();
  std::int64_t PickStream(std::int64_t block = -1);
  std::vector<std::int64_t> MyBlocks();
  std::int64_t PickBlock();  // -1: none
  std::vector<std::int64_t> MyStreams() const;
  const Memory& Block(std::int64_t number) const { return model_.memories().at(number); }
  bool MyHostBytes(std::int64_t number) const { return model_.Free(model_.host().at(number), thread_); }
  std::int64_t New(char kind) { return next_[kind]++; }
  std::uint64_t LiveBytes() const;
  bool Fits(std::uint64_t bytes) const;
  bool alone() const { return program_.threads == 1 || interlude_; }

  std::mt19937_64 random_;
  const Profile& profile_;
  Program program_;
  Model model_;
  std::map<char, std::int64_t> next_;  // numbers, by the kind of object
  std::map<std::int64_t, Plan> plans_;
  std::set<std::int64_t> unread_;  // host bytes
  std::vector<std::uint64_t> sizes_;
  std::map<std::int64_t, int> stream_owner_;  // threads
  int thread_ = 0;
  bool interlude_ = false;
  int synchronizing_ = 1;
  bool quiet_ = false;
  bool apart_ = false;
  bool pinned_ = false;
};

}  // namespace cuheap::campaigns

#endif  // CUHEAP_TESTS_CAMPAIGNS_RANDOM_GENERATOR_H_
