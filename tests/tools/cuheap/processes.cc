// A program for run_test.py: uses CUDA as its arguments say, and ends in one of many ways.
//   leak N | exit STATUS | quit STATUS | abort | wait FILE
#include <cuda_runtime_api.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

void Leak(int blocks) {
  for (int i = 0; i < blocks; ++i) {
    void* block = nullptr;
    if (cudaMalloc(&block, 1 << 20) != cudaSuccess) std::exit(99);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "";
  const char* argument = argc > 2 ? argv[2] : "0";
  if (std::strcmp(what, "leak") == 0) {
    Leak(std::atoi(argument));
    return 0;
  }
  if (std::strcmp(what, "exit") == 0) {
    Leak(1);
    return std::atoi(argument);
  }
  if (std::strcmp(what, "quit") == 0) {
    Leak(1);
    _exit(std::atoi(argument));
  }
  if (std::strcmp(what, "abort") == 0) {
    Leak(1);
    std::abort();
  }
  if (std::strcmp(what, "wait") == 0) {
    Leak(4);
    // Written whole before it has its name.
    char name[4096];
    std::snprintf(name, sizeof(name), "%s.new", argument);
    std::FILE* file = std::fopen(name, "w");
    if (file == nullptr) return 98;
    std::fprintf(file, "%d", static_cast<int>(getpid()));
    std::fclose(file);
    std::rename(name, argument);
    for (;;) pause();
  }
  return 97;
}
