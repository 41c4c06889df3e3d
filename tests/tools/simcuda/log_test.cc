// SIMCUDA_LOG has every call, in a form that tests can read, and its order is the calls' order.
#include <unistd.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/tools/simcuda/simulated.h"

namespace cuheap::testing {
namespace {

std::vector<std::string> Lines(const std::string& path) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

struct LogFile {
  std::string path = ::testing::TempDir() + "simcuda_log_" + std::to_string(getpid());
  LogFile() { unlink(path.c_str()); }
  ~LogFile() { unlink(path.c_str()); }
};

// "12 4711 cuMemAlloc_v2 dptr=0x7f bytesize=3 *dptr=0x23 -> 0"
struct LoggedCall {
  uint64_t sequence = 0;
  int thread = 0;
  std::string name;
  std::map<std::string, std::string> values;
  int result = -1;
};

bool Parse(const std::string& line, LoggedCall* call) {
  std::istringstream in(line);
  if (!(in >> call->sequence >> call->thread >> call->name)) return false;
  for (std::string word; in >> word;) {
    if (word == "->") return static_cast<bool>(in >> call->result);
    const size_t equals = word.find('=');
    if (equals == std::string::npos) return false;
    call->values[word.substr(0, equals)] = word.substr(equals + 1);
  }
  return false;
}

TEST(LogTest, EveryCallIsOneLineWithArgumentsOutputsAndResult) {
  const LogFile log;
  Simulate({{"SIMCUDA_LOG", log.path}}, [] {
    UseDevice();
    const CUdeviceptr block = Allocate(3000);
    EXPECT_CUDA(cuMemFree(block));
    EXPECT_EQ(cuMemFree(block), CUDA_ERROR_INVALID_VALUE);
    CUmodule module = nullptr;
    CUfunction function = nullptr;
    EXPECT_CUDA(cuModuleLoadData(&module, "image"));
    EXPECT_CUDA(cuModuleGetFunction(&function, module, "a \"b\""));
    Allocate(5 << 20);
  });
  const std::vector<std::string> lines = Lines(log.path);
  ASSERT_EQ(lines.size(), 13u);
  EXPECT_EQ(lines[0].rfind("# simcuda log 1 pid=", 0), 0u);
  std::vector<LoggedCall> calls;
  for (size_t i = 1; i + 2 < lines.size(); ++i) {
    if (lines[i].find("a \\\"b\\\"") != std::string::npos) {
      EXPECT_NE(lines[i].find("name=\"a \\\"b\\\"\" *hfunc=0x"), std::string::npos) << lines[i];
      continue;
    }
    LoggedCall call;
    ASSERT_TRUE(Parse(lines[i], &call)) << lines[i];
    EXPECT_EQ(call.sequence, i);
    EXPECT_GT(call.thread, 0);
    calls.push_back(call);
  }
  EXPECT_EQ(calls[0].name, "cuInit");
  EXPECT_EQ(calls[4].name, "cuMemAlloc_v2");
  EXPECT_EQ(calls[4].values["bytesize"], "3000");
  EXPECT_EQ(calls[4].result, 0);
  EXPECT_EQ(calls[5].name, "cuMemFree_v2");
  EXPECT_EQ(calls[5].values["dptr"], calls[4].values["*dptr"]);
  EXPECT_EQ(calls[6].result, 1);
  EXPECT_EQ(lines[lines.size() - 2].rfind("# held address=0x", 0), 0u);
  EXPECT_NE(lines[lines.size() - 2].find("bytes=5242880 kind=device"), std::string::npos);
  EXPECT_EQ(lines.back(), "# exit blocks=1");
}

// Replaying the log of several threads must never see an address given out that is still held.
TEST(LogTest, TheOrderIsThatOfTheEffects) {
  const LogFile log;
  Simulate({{"SIMCUDA_LOG", log.path}}, [] {
    const CUcontext context = UseDevice();
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([context] {
        EXPECT_CUDA(cuCtxSetCurrent(context));
        for (int i = 0; i < 200; ++i) EXPECT_CUDA(cuMemFree(Allocate(i % 2 == 0 ? 100 : 3 << 20)));
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
  std::set<std::string> held;
  std::set<int> threads;
  uint64_t sequence = 0;
  for (const std::string& line : Lines(log.path)) {
    if (line[0] == '#') continue;
    LoggedCall call;
    ASSERT_TRUE(Parse(line, &call)) << line;
    EXPECT_EQ(call.sequence, ++sequence);
    threads.insert(call.thread);
    if (call.name == "cuMemAlloc_v2") {
      EXPECT_TRUE(held.insert(call.values["*dptr"]).second) << line;
    }
    if (call.name == "cuMemFree_v2") {
      EXPECT_EQ(held.erase(call.values["dptr"]), 1u) << line;
    }
  }
  EXPECT_TRUE(held.empty());
  EXPECT_EQ(threads.size(), 5u);
}

TEST(LogTest, BlocksThatGoWithTheirContextAreNoted) {
  const LogFile log;
  Simulate({{"SIMCUDA_LOG", log.path}}, [] {
    UseDevice();
    Allocate(100);
    EXPECT_CUDA(cuDevicePrimaryCtxReset(0));
  });
  const std::vector<std::string> lines = Lines(log.path);
  ASSERT_GE(lines.size(), 3u);
  const std::string& note = lines[lines.size() - 3];
  EXPECT_EQ(note.rfind("# release address=0x", 0), 0u) << note;
  EXPECT_NE(note.find("bytes=100 kind=device why=cuDevicePrimaryCtxReset"), std::string::npos) << note;
  EXPECT_EQ(lines.back(), "# exit blocks=0");
}

TEST(LogTest, WorkIsNotedWhenAskedFor) {
  const LogFile log;
  Simulate({{"SIMCUDA_LOG", log.path}, {"SIMCUDA_LOG_WORK", "1"}}, [] {
    UseDevice();
    EXPECT_CUDA(cuMemsetD8(Allocate(100), 1, 100));
    EXPECT_CUDA(cuCtxSynchronize());
  });
  bool noted = false;
  for (const std::string& line : Lines(log.path)) noted |= line.rfind("# work id=1 stream=1 what=memset", 0) == 0;
  EXPECT_TRUE(noted);
}

TEST(LogTest, DataThatCrossesIsHashedWhenAskedFor) {
  const LogFile log;
  Simulate({{"SIMCUDA_LOG", log.path}, {"SIMCUDA_LOG_DATA", "1"}}, [] {
    UseDevice();
    const CUdeviceptr block = Allocate(100), other = Allocate(100);
    std::vector<char> bytes(100, 'a'), back(100);
    EXPECT_CUDA(cuMemcpyHtoD(block, bytes.data(), 100));
    EXPECT_CUDA(cuMemcpyDtoD(other, block, 100));
    EXPECT_CUDA(cuMemcpyDtoH(back.data(), other, 100));
    EXPECT_CUDA(cuMemsetD8(other + 99, 'b', 1));
    EXPECT_CUDA(cuMemcpyDtoH(back.data(), other, 100));
    EXPECT_CUDA(cuMemsetD8(other + 99, 'a', 1));
    EXPECT_CUDA(cuMemsetD8(other + 12, 'b', 1));
    EXPECT_CUDA(cuMemcpyDtoH(back.data(), other, 100));
    EXPECT_CUDA(cuMemcpyDtoH(back.data(), block, 99));
  });
  std::vector<std::string> whither, hashes;
  for (const std::string& line : Lines(log.path)) {
    if (line.rfind("# data ", 0) != 0) continue;
    const size_t hash = line.find(" hash=0x");
    ASSERT_NE(hash, std::string::npos) << line;
    whither.push_back(line.substr(0, hash));
    hashes.push_back(line.substr(hash));
  }
  EXPECT_EQ(whither, (std::vector<std::string>{"# data to=device bytes=100", "# data to=host bytes=100",
                                               "# data to=host bytes=100", "# data to=host bytes=100",
                                               "# data to=host bytes=99"}));
  ASSERT_EQ(hashes.size(), 5u);
  EXPECT_EQ(hashes[0], hashes[1]) << "the same bytes came back";
  EXPECT_EQ(std::set<std::string>(hashes.begin(), hashes.end()).size(), 4u) << "one byte more, less or another";
}

TEST(LogTest, TheProcessIdGoesIntoTheName) {
  const LogFile log;
  const std::string pattern = log.path + ".%p";
  std::string made;
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  Simulate({{"SIMCUDA_LOG", pattern}}, [&] {
    UseDevice();
    const int pid = getpid();
    ASSERT_EQ(write(ends[1], &pid, sizeof pid), static_cast<ssize_t>(sizeof pid));
  });
  int pid = 0;
  ASSERT_EQ(read(ends[0], &pid, sizeof pid), static_cast<ssize_t>(sizeof pid));
  made = log.path + "." + std::to_string(pid);
  EXPECT_GT(Lines(made).size(), 3u);
  unlink(made.c_str());
}

TEST(LogTest, AnUnusablePathIsNamedAndDoesNotStopTheProgram) {
  ::testing::internal::CaptureStderr();
  Simulate({{"SIMCUDA_LOG", "/nowhere/at/all"}}, [] { EXPECT_NE(Allocate(UseDevice() != nullptr), 0u); });
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(said, "simcuda: cannot write SIMCUDA_LOG /nowhere/at/all: No such file or directory\n");
}

}  // namespace
}  // namespace cuheap::testing
