// Another process that opens blocks of a running program by their IPC handles.
#ifndef CUHEAP_TESTS_CAMPAIGNS_RANDOM_IMPORTER_H_
#define CUHEAP_TESTS_CAMPAIGNS_RANDOM_IMPORTER_H_

#include <cuda.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <string>

namespace cuheap::campaigns {

class Importer {
 public:
  Importer() = default;
  Importer(const Importer&) = delete;
  Importer& operator=(const Importer&) = delete;
  ~Importer();

  // preloaded: with this process's LD_PRELOAD, else without any. Started at the first question.
  void set_preloaded(bool preloaded) { preloaded_ = preloaded; }
  // What the other process answered; "no answer" if it is gone.
  std::string Open(std::int64_t block, int device, const CUipcMemHandle& handle);
  std::string Add(std::int64_t block, std::size_t bytes, std::uint32_t value);
  std::string Close(std::int64_t block);

 private:
  bool Start();
  std::string Ask(const std::string& question);

  std::mutex mutex_;
  bool preloaded_ = true;
  pid_t child_ = 0;
  std::FILE* to_ = nullptr;
  std::FILE* from_ = nullptr;
};

// That process: answers questions on stdin until it ends.
int ServeImports();

}  // namespace cuheap::campaigns

#endif  // CUHEAP_TESTS_CAMPAIGNS_RANDOM_IMPORTER_H_
