#include "tests/campaigns/random/importer.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <iostream>
#include <map>
#include <sstream>
#include <vector>

#include "tests/campaigns/random/kernels.h"
#include "tests/campaigns/random/machine.h"

namespace cuheap::campaigns {
namespace {

std::string Hex(const CUipcMemHandle& handle) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const char byte : handle.reserved) {
    text += kDigits[static_cast<unsigned char>(byte) >> 4];
    text += kDigits[static_cast<unsigned char>(byte) & 15];
  }
  return text;
}

CUipcMemHandle FromHex(const std::string& text) {
  CUipcMemHandle handle = {};
  for (std::size_t i = 0; i < sizeof(handle.reserved) && 2 * i + 1 < text.size(); ++i)
    handle.reserved[i] = static_cast<char>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  return handle;
}

// The importing side.
class Imports {
 public:
  std::string Answer(const std::string& question) {
    std::istringstream in(question);
    std::string verb;
    std::int64_t block = 0;
    in >> verb >> block;
    std::ostringstream out;
    if (verb == "open") {
      int device = 0;
      std::string handle;
      in >> device >> handle;
      if (const CUresult entered = Enter(device); entered != CUDA_SUCCESS) return "context " + std::to_string(entered);
      blocks_[block].device = device;
      out << cuIpcOpenMemHandle(&blocks_[block].address, FromHex(handle), CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    } else if (verb == "add") {
      std::size_t bytes = 0;
      std::uint32_t value = 0;
      in >> bytes >> value;
      Enter(blocks_[block].device);
      std::vector<unsigned char> seen(bytes);
      out << cuMemcpyDtoH(seen.data(), blocks_[block].address, bytes) << ' ' << std::hex << Hash(seen.data(), bytes);
      out << ' ' << LaunchAdd(contexts_[blocks_[block].device], {}, blocks_[block].address, value, bytes / 4);
      out << ' ' << cuCtxSynchronize();
    } else {
      Enter(blocks_[block].device);
      out << cuIpcCloseMemHandle(blocks_[block].address);
    }
    return out.str();
  }

 private:
  struct Block {
    CUdeviceptr address = 0;
    int device = 0;
  };

  // The device's primary context, with its kernels.
  CUresult Enter(int device) {
    CUcontext context = nullptr;
    if (contexts_.contains(device)) {
      cuDevicePrimaryCtxRetain(&context, device);
      cuDevicePrimaryCtxRelease(device);
      return cuCtxSetCurrent(context);
    }
    CUresult result = cuInit(0);
    if (result == CUDA_SUCCESS) result = cuDevicePrimaryCtxRetain(&context, device);
    if (result == CUDA_SUCCESS) result = cuCtxSetCurrent(context);
    if (result == CUDA_SUCCESS) contexts_[device] = LoadKernels();
    return result;
  }

  std::map<std::int64_t, Block> blocks_;
  std::map<int, Kernels> contexts_;
};

}  // namespace

bool Importer::Start() {
  if (child_ != 0) return true;
  std::array<int, 2> questions{}, answers{};
  if (pipe2(questions.data(), O_CLOEXEC) != 0) return false;
  if (pipe2(answers.data(), O_CLOEXEC) != 0) return false;
  std::vector<char*> environment;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (preloaded_ || std::strncmp(*variable, "LD_PRELOAD=", 11) != 0) environment.push_back(*variable);
  }
  environment.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, questions[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, answers[1], STDOUT_FILENO);
  char self[] = "/proc/self/exe";
  char argument[] = "--importer";
  char* argv[] = {self, argument, nullptr};
  const int failed = posix_spawn(&child_, self, &actions, nullptr, argv, environment.data());
  posix_spawn_file_actions_destroy(&actions);
  close(questions[0]);
  close(answers[1]);
  to_ = fdopen(questions[1], "w");
  from_ = fdopen(answers[0], "r");
  if (failed != 0) child_ = 0;
  return failed == 0;
}

Importer::~Importer() {
  if (to_ != nullptr) std::fclose(to_);  // it ends when nobody can ask any more
  if (from_ != nullptr) std::fclose(from_);
  if (child_ != 0) waitpid(child_, nullptr, 0);
}

std::string Importer::Ask(const std::string& question) {
  const std::lock_guard lock(mutex_);  // held until the answer is there: questions of two threads must not mix
  std::array<char, 256> answer{};
  if (!Start() || std::fprintf(to_, "%s\n", question.c_str()) < 0 || std::fflush(to_) != 0 ||
      // NOLINTNEXTLINE(clang-analyzer-unix.BlockInCriticalSection)
      std::fgets(answer.data(), answer.size(), from_) == nullptr) {
    return "no answer";
  }
  std::string text(answer.data());
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

std::string Importer::Open(std::int64_t block, int device, const CUipcMemHandle& handle) {
  return Ask("open " + std::to_string(block) + ' ' + std::to_string(device) + ' ' + Hex(handle));
}

std::string Importer::Add(std::int64_t block, std::size_t bytes, std::uint32_t value) {
  return Ask("add " + std::to_string(block) + ' ' + std::to_string(bytes) + ' ' + std::to_string(value));
}

std::string Importer::Close(std::int64_t block) { return Ask("close " + std::to_string(block)); }

int ServeImports() {
  Imports imports;
  for (std::string question; std::getline(std::cin, question);)
    std::cout << imports.Answer(question) << '\n' << std::flush;
  return 0;
}

}  // namespace cuheap::campaigns
