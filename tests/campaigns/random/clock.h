// Vector clocks: which pieces of work are complete before another begins, whatever order the device chooses.
#ifndef CUHEAP_TESTS_CAMPAIGNS_RANDOM_CLOCK_H_
#define CUHEAP_TESTS_CAMPAIGNS_RANDOM_CLOCK_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace cuheap::campaigns {

// The nth thing (from 1) that an agent did. Agents are host threads, and streams as one thread uses them.
struct Moment {
  std::size_t agent = 0;
  std::uint32_t time = 0;
};

// What is known to have happened: of each agent everything up to a time.
class Clock {
 public:
  bool Covers(Moment moment) const { return At(moment.agent) >= moment.time; }
  void Join(const Clock& other) {
    times_.resize(std::max(times_.size(), other.times_.size()));
    for (std::size_t i = 0; i < other.times_.size(); ++i) times_[i] = std::max(times_[i], other.times_[i]);
  }
  Moment Tick(std::size_t agent) {
    if (agent >= times_.size()) times_.resize(agent + 1);
    return {agent, ++times_[agent]};
  }

 private:
  std::uint32_t At(std::size_t agent) const { return agent < times_.size() ? times_[agent] : 0; }

  std::vector<std::uint32_t> times_;
};

}  // namespace cuheap::campaigns

#endif  // CUHEAP_TESTS_CAMPAIGNS_RANDOM_CLOCK_H_
