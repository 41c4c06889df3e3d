// Scenes of the semantic programs: one a run, each printing what a program could see of CUDA, and no address.
//
// The same lines must come out without and with the preload library, on the simulated driver and on a real one. A scene
// also says what it must see in any case (Expect): two equal sets of wrong lines are found too.
#ifndef CUHEAP_TESTS_INTERPOSE_SEMANTICS_SCENE_H_
#define CUHEAP_TESTS_INTERPOSE_SEMANTICS_SCENE_H_

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace semantics {

inline constexpr std::size_t kKiB = std::size_t{1} << 10;
inline constexpr std::size_t kMiB = std::size_t{1} << 20;

// A scene registers itself by being made, at namespace scope.
class Scene {
 public:
  using Function = void (*)();
  // settings: what the runner puts into the environment, as in "SIMCUDA_DEVICES=2 SIMCUDA_MEMORY=64MiB"; the word
  // "simulated" means that the scene needs the simulated driver.
  Scene(const char* name, const char* settings, Function run);

  const char* name() const { return name_; }
  const char* settings() const { return settings_; }
  void Run() const { run_(); }

 private:
  const char* name_;
  const char* settings_;
  Function run_;
};

// Prints "what RESULT"; returns the result.
int Say(const char* what, int result);
// The same, with a number behind `what`.
int Say(const char* what, unsigned long long number, int result);
// Prints a line of its own.
[[gnu::format(printf, 1, 2)]] void Print(const char* format, ...);
// Nothing if it holds; else a line by which the runner fails.
void Expect(bool holds, const char* what);

// Ends the process after a line if the result is an error: what a scene needs before it begins.
void Must(const char* what, int result);

// cuInit, the primary context of the device, current.
CUcontext StartDevice(int ordinal = 0);
// False, after a line that says so, if the machine has fewer.
bool HasDevices(int count);

CUdeviceptr Allocate(std::size_t bytes);  // by cuMemAlloc; must succeed
CUstream NewStream();                     // a non-blocking one
unsigned ReadWord(CUdeviceptr address);   // by cuMemcpyDtoH; prints a failure
void Fill(CUdeviceptr address, unsigned value, std::size_t bytes);
// All 32-bit words of the range have this value.
bool Holds(CUdeviceptr address, unsigned value, std::size_t bytes);

// Kernels that exist on any driver: as PTX text, whose names the simulated driver knows.
class Kernels {
 public:
  Kernels();  // loads them in the current context; must succeed
  CUresult Fill(CUstream stream, CUdeviceptr to, std::uint64_t words, std::uint32_t value) const;
  CUresult Copy(CUstream stream, CUdeviceptr to, CUdeviceptr from, std::uint64_t bytes) const;
  CUresult ScaleAdd(CUstream stream, CUdeviceptr to, std::uint64_t words, std::uint32_t a, std::uint32_t b) const;
  // Runs until the word at `flag` has this value.
  CUresult Spin(CUstream stream, CUdeviceptr flag, std::uint32_t value) const;

 private:
  CUfunction fill_ = nullptr;
  CUfunction copy_ = nullptr;
  CUfunction scale_add_ = nullptr;
  CUfunction spin_ = nullptr;
};

// A word in pinned memory that holds streams back until Open(): work queued behind it stays queued.
class Gate {
 public:
  Gate();
  ~Gate();
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  void Close(const Kernels& kernels, CUstream stream);  // from now on work in the stream waits
  void Open();

 private:
  volatile unsigned* word_ = nullptr;
};

}  // namespace semantics

#endif  // CUHEAP_TESTS_INTERPOSE_SEMANTICS_SCENE_H_
