// Claims about the real driver on which cuheap rests (docs/unverified.md), one a run: each prints what it measured as
// lines "figure: NAME = VALUE UNIT" and ends with "holds", "fails: …" or "skipped: …".
#ifndef CUHEAP_TESTS_GPU_CLAIMS_H_
#define CUHEAP_TESTS_GPU_CLAIMS_H_

#include <cuda.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

namespace claims {

inline constexpr std::size_t kMiB = std::size_t{1} << 20;

// A claim registers itself by being made, at namespace scope.
class Claim {
 public:
  using Function = void (*)();
  Claim(const char* name, Function run);
  static int Run(const char* name);  // exit status
};

[[noreturn]] void Fails(const std::string& why);
[[noreturn]] void Skipped(const std::string& why);
void Figure(const char* name, double value, const char* unit);
// A precondition: the claim fails if it does not succeed; a feature that is not there skips it.
void Must(const char* what, CUresult result);
inline void Holds(bool holds, const std::string& otherwise) {
  if (!holds) Fails(otherwise);
}

CUcontext StartDevice();  // cuInit, the primary context of device 0, current
CUstream NewStream(unsigned flags = CU_STREAM_NON_BLOCKING);
CUevent NewEvent();

// Kernels that exist on any driver. `Delay` keeps a stream busy for so long.
class Kernels {
 public:
  Kernels();  // in the current context
  void Delay(CUstream stream, std::chrono::milliseconds duration) const;
  void Fill(CUstream stream, CUdeviceptr to, std::uint64_t words, std::uint32_t value) const;

 private:
  CUfunction delay_ = nullptr, fill_ = nullptr;
};

class Clock {
 public:
  double Milliseconds() const {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace claims

#endif  // CUHEAP_TESTS_GPU_CLAIMS_H_
