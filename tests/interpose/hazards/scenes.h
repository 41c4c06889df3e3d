// What the scenes of the hazard programs share. They print what they see, one line each and at once (the process may
// die at any moment), and name no address, so that the same lines come out without and with the preload library.
#ifndef CUHEAP_TESTS_INTERPOSE_HAZARDS_SCENES_H_
#define CUHEAP_TESTS_INTERPOSE_HAZARDS_SCENES_H_

#include <cuda.h>

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace hazards {

inline constexpr std::size_t kKiB = std::size_t{1} << 10;
inline constexpr std::size_t kMiB = std::size_t{1} << 20;

using Arguments = std::vector<std::string>;  // after the scene's name
using Scene = int (*)(const Arguments&);     // the exit status
using Scenes = std::map<std::string, Scene>;

// One map for each source file; hazard_program.cc joins them.
Scenes ProcessScenes();
Scenes SignalScenes();
Scenes ThreadScenes();
Scenes StackScenes();
Scenes LimitScenes();

// Prints "what result" with one write(2); returns the result.
int Say(const char* what, long long result);
// Ends the process with status 99 if it is not so.
void Require(bool condition, const char* what);

// cuInit, the primary context of device 0 retained and current. Prints the results.
CUcontext StartDevice();
// The same, without a word.
CUcontext StartQuietly();
// Fills the block with its size's low byte. Ends the process if that fails.
CUdeviceptr Allocate(std::size_t bytes);
void Free(CUdeviceptr address);
// True if a new block of this size takes bytes and gives them back.
bool RoundTrip(std::size_t bytes);

// A stream that waits for a word in host memory: work that hangs until somebody opens the gate. Source: CUDA Driver
// API, Stream Memory Operations, cuStreamWaitValue32.
class Gate {
 public:
  Gate();
  CUstream stream() const { return stream_; }
  void Open() { *flag_ = 1; }
  void Close() { *flag_ = 0; }
  // Queues a wait for the gate in the stream.
  void Block();

 private:
  CUstream stream_ = nullptr;
  volatile unsigned int* flag_ = nullptr;
  CUdeviceptr on_device_ = 0;
};

// Starts `body` in a thread with a stack of so many bytes and waits for its end.
void RunInThread(std::size_t stack_bytes, const std::function<void()>& body);

// This program's own file, to be executed again.
std::string OwnPath();

}  // namespace hazards

#endif  // CUHEAP_TESTS_INTERPOSE_HAZARDS_SCENES_H_
