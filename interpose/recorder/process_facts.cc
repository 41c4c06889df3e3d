#include "interpose/recorder/process_facts.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "interpose/recorder/journal_file.h"
#include "interpose/recorder/own_files.h"

namespace cuheap::recorder {
namespace {

// What launchers tell a rank about itself. The environment as a whole is never recorded: it holds secrets.
constexpr const char* kLauncherVariables[] = {
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "GROUP_RANK",
    "NODE_RANK",
    "MASTER_ADDR",
    "SLURM_JOB_ID",
    "SLURM_PROCID",
    "SLURM_LOCALID",
    "SLURM_NODEID",
    "SLURM_NTASKS",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "PMI_RANK",
    "PMI_SIZE",
    "CUDA_VISIBLE_DEVICES",
    "NVIDIA_VISIBLE_DEVICES",
    "TORCHELASTIC_RUN_ID",
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_ALLOC_CONF",
    "XLA_PYTHON_CLIENT_ALLOCATOR",
    "TF_GPU_ALLOCATOR",
};

// Appends whole strings to a fixed, zero-terminated field; what doesn't fit is left out.
class FieldWriter {
 public:
  FieldWriter(char* field, std::size_t size) : field_(field), size_(size) {}
  void AppendLine(std::string_view name, std::string_view value) {
    if (value.find('\n') != std::string_view::npos) return;
    if (used_ + name.size() + value.size() + 3 > size_) return;
    Append(name);
    Append("=");
    Append(value);
    Append("\n");
  }

 private:
  void Append(std::string_view text) {
    std::memcpy(field_ + used_, text.data(), text.size());
    used_ += text.size();
  }
  char* field_;
  std::size_t size_;
  std::size_t used_ = 0;
};

void ReadLink(const char* path, char* out, std::size_t size) {
  const long length = syscall(SYS_readlinkat, AT_FDCWD, path, out, size - 1);
  out[length < 0 ? 0 : length] = '\0';
}

std::uint64_t RealtimeNs() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace

std::size_t ReadSmallFile(const char* path, char* out, std::size_t size) {
  const int descriptor = OpenOwn(AT_FDCWD, path, O_RDONLY, 0);
  if (descriptor < 0) return 0;
  std::size_t used = 0;
  while (used < size) {
    const long got = syscall(SYS_read, descriptor, out + used, size - used);
    if (got <= 0) break;
    used += static_cast<std::size_t>(got);
  }
  CloseOwn(descriptor);
  return used;
}

std::uint64_t ProcessStartTicks() {
  char text[1024];
  const std::size_t size = ReadSmallFile("/proc/self/stat", text, sizeof(text));
  // The second field is the name in parentheses, which may hold anything: count from the last ')'.
  std::string_view rest(text, size);
  const std::size_t name_end = rest.rfind(')');
  if (name_end == std::string_view::npos) return 0;
  rest.remove_prefix(name_end + 1);
  for (int field = 2; field < 22; ++field) {
    const std::size_t space = rest.find(' ');
    if (space == std::string_view::npos) return 0;
    rest.remove_prefix(space + 1);
  }
  std::uint64_t ticks = 0;
  for (char digit : rest) {
    if (digit < '0' || digit > '9') break;
    ticks = ticks * 10 + static_cast<std::uint64_t>(digit - '0');
  }
  return ticks;
}

void FillProcessFacts(journal::FileHeader& header, std::string_view configuration) {
  header.parent_pid = static_cast<std::uint64_t>(getppid());
  header.start_realtime_ns = RealtimeNs();
  header.start_monotonic_ns = MonotonicNs();
  gethostname(header.host, sizeof(header.host) - 1);
  ReadLink("/proc/self/exe", header.executable, sizeof(header.executable));
  ReadLink("/proc/self/cwd", header.working_directory, sizeof(header.working_directory));
  std::size_t size = ReadSmallFile("/proc/self/cmdline", header.command_line, sizeof(header.command_line));
  header.command_line_cut = size == sizeof(header.command_line) ? 1 : 0;
  while (size > 0 && header.command_line[size - 1] == '\0' && header.command_line_cut == 0) --size;
  header.command_line_bytes = static_cast<std::uint32_t>(size);
  configuration.copy(header.configuration, sizeof(header.configuration) - 1);
  FieldWriter launcher(header.launcher_facts, sizeof(header.launcher_facts));
  for (const char* name : kLauncherVariables) {
    if (const char* value = std::getenv(name); value != nullptr) launcher.AppendLine(name, value);
  }
}

std::uint32_t ThreadKernelId() { return static_cast<std::uint32_t>(syscall(SYS_gettid)); }

void ThreadName(char (&name)[16]) {
  std::memset(name, 0, sizeof(name));
  prctl(PR_GET_NAME, name, 0, 0, 0);
}

}  // namespace cuheap::recorder
