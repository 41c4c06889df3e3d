#include "analysis/process_state.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

namespace cuheap::analysis {
namespace {

std::uint64_t StartTicks(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  std::getline(file, line);
  std::istringstream fields(line.substr(line.rfind(')') + 1));
  std::string field;
  for (int i = 3; i <= 22; ++i) fields >> field;
  return std::stoull(field);
}

std::string Host() {
  char host[256] = {};
  gethostname(host, sizeof(host) - 1);
  return host;
}

class ProcessStateTest : public testing::Test {
 protected:
  void SetUp() override {
    char path[] = "/tmp/process-state-XXXXXX";
    descriptor_ = mkstemp(path);
    ASSERT_GE(descriptor_, 0);
    unlink(path);
    ASSERT_EQ(ftruncate(descriptor_, 4096), 0);
    struct stat facts;
    ASSERT_EQ(fstat(descriptor_, &facts), 0);
    self_ = {static_cast<std::uint64_t>(getpid()), StartTicks(getpid()), Host(), facts.st_dev, facts.st_ino};
  }
  void TearDown() override { close(descriptor_); }
  int descriptor_ = -1;
  JournalWriter self_;
};

TEST_F(ProcessStateTest, AProcessThatMapsItsJournalRuns) {
  void* mapping = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, descriptor_, 0);
  ASSERT_NE(mapping, MAP_FAILED);
  EXPECT_EQ(StateOf(self_), WriterState::kRuns);
  self_.host.clear();
  EXPECT_EQ(StateOf(self_), WriterState::kRuns);
  munmap(mapping, 4096);
  EXPECT_EQ(StateOf(self_), WriterState::kExecuted) << "the same process without the mapping is another program";
}

TEST_F(ProcessStateTest, AProcessWithTheSameNumberIsAnother) {
  ++self_.start_ticks;
  EXPECT_EQ(StateOf(self_), WriterState::kGone);
}

TEST_F(ProcessStateTest, AnotherHostCannotBeAsked) {
  self_.host += "-other";
  EXPECT_EQ(StateOf(self_), WriterState::kElsewhere);
}

TEST_F(ProcessStateTest, AProcessThatIsNotYetWaitedForIsGone) {
  const pid_t pid = fork();
  if (pid == 0) _exit(0);
  siginfo_t info;
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT), 0);
  self_.pid = static_cast<std::uint64_t>(pid);
  self_.start_ticks = StartTicks(pid);
  EXPECT_EQ(StateOf(self_), WriterState::kGone);
  waitpid(pid, nullptr, 0);
  EXPECT_EQ(StateOf(self_), WriterState::kGone);
}

}  // namespace
}  // namespace cuheap::analysis
