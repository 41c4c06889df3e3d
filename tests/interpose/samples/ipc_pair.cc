// Two processes share a block and an event: the second one computes in the first one's memory.
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "tests/interpose/samples/check.h"
#include "tests/interpose/samples/kernels.h"

namespace {

constexpr std::size_t kWords = 1'000'000, kBytes = kWords * sizeof(unsigned);

struct Message {
  cudaIpcMemHandle_t memory;
  cudaIpcEventHandle_t event;
};

struct Pipe {
  int ends[2] = {-1, -1};
};

template <class Value>
void Send(const Pipe& pipe, const Value& value) {
  if (write(pipe.ends[1], &value, sizeof(value)) != sizeof(value))
    samples::Fail(__FILE_NAME__, __LINE__, "write", 0, "");
}

template <class Value>
Value Receive(const Pipe& pipe) {
  Value value;
  if (read(pipe.ends[0], &value, sizeof(value)) != sizeof(value)) samples::Fail(__FILE_NAME__, __LINE__, "read", 0, "");
  return value;
}

// The second process. Ends without a word of its own: the first one reads what it did.
int Compute(const Pipe& from_first, const Pipe& to_first) {
  // On the simulated driver each process has a log of its own.
  if (const char* log = std::getenv("SIMCUDA_LOG")) setenv("SIMCUDA_LOG", (std::string(log) + ".second").c_str(), 1);
  const auto message = Receive<Message>(from_first);
  unsigned* shared = nullptr;
  unsigned* own = nullptr;
  cudaEvent_t written = nullptr;
  cudaStream_t stream = nullptr;
  CHECK_CUDA(cudaSetDevice(0));
  CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK_CUDA(cudaIpcOpenMemHandle(samples::Out(&shared), message.memory, cudaIpcMemLazyEnablePeerAccess));
  CHECK_CUDA(cudaIpcOpenEventHandle(&written, message.event));
  CHECK_CUDA(cudaMalloc(samples::Out(&own), kBytes));
  CHECK_CUDA(samples::LaunchFill(own, kWords, 1000, stream));
  CHECK_CUDA(cudaStreamWaitEvent(stream, written, 0));
  CHECK_CUDA(samples::LaunchAdd(shared, shared, own, kWords, stream));
  CHECK_CUDA(cudaStreamSynchronize(stream));
  CHECK_CUDA(cudaFree(own));
  CHECK_CUDA(cudaIpcCloseMemHandle(shared));
  CHECK_CUDA(cudaEventDestroy(written));
  Send(to_first, 0);
  return 0;
}

int Share(const Pipe& to_second, const Pipe& from_second, pid_t second) {
  unsigned* shared = nullptr;
  cudaEvent_t written = nullptr;
  cudaStream_t stream = nullptr;
  Message message{};
  CHECK_CUDA(cudaSetDevice(0));
  CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK_CUDA(cudaMalloc(samples::Out(&shared), kBytes));
  CHECK_CUDA(cudaEventCreateWithFlags(&written, cudaEventDisableTiming | cudaEventInterprocess));
  CHECK_CUDA(cudaIpcGetMemHandle(&message.memory, shared));
  CHECK_CUDA(cudaIpcGetEventHandle(&message.event, written));
  CHECK_CUDA(samples::LaunchFill(shared, kWords, 7, stream));
  CHECK_CUDA(samples::LaunchScaleAdd(shared, kWords, 3, 1, stream));
  CHECK_CUDA(cudaEventRecord(written, stream));
  Send(to_second, message);
  Receive<int>(from_second);
  int status = 1;
  waitpid(second, &status, 0);
  samples::Expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the second process's end");
  std::vector<unsigned> out(kWords);
  CHECK_CUDA(cudaMemcpy(out.data(), shared, kBytes, cudaMemcpyDeviceToHost));
  std::printf("checksum %llx\n", samples::Checksum(out));
  samples::Expect(out[kWords - 1] == 1022, "sum");
  CHECK_CUDA(cudaFree(shared));
  CHECK_CUDA(cudaEventDestroy(written));
  CHECK_CUDA(cudaStreamDestroy(stream));
  return 0;
}

}  // namespace

int main() {
  Pipe there, back;
  if (pipe(there.ends) != 0 || pipe(back.ends) != 0) return 1;
  const pid_t second = fork();  // before CUDA begins: a context does not survive a fork
  if (second == 0) return Compute(there, back);
  return Share(there, back, second);
}
