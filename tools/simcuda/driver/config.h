// What the environment asks of the simulated CUDA. docs/simcuda.md has the table of variables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace simcuda {

// When queued work runs, among the times the documentation allows.
enum class Order {
  kLate,    // only when something waits for it (or asks for it often enough)
  kRandom,  // some of it, by seed, at every driver call
  kEager,   // as soon as what it depends on is done
};

// One injected fault: the nth (from 1) call of `name` fails with `code` without being carried out.
struct Fault {
  std::string name;
  uint64_t nth = 1;
  int code = 0;
  bool sticky = false;  // the current context is lost with it: each later call of the context answers `code`
  uint64_t seen = 0;
};

struct Config {
  int device_count = 1;
  std::string model = "h100";
  size_t memory_bytes = 0;   // 0: the model's own
  size_t context_bytes = 0;  // charged to a device for each context
  Order order = Order::kLate;
  uint64_t seed = 1;
  int fill = -1;                // byte that memory handed out is filled with; -1: none
  bool free_sync = true;        // cuMemFree waits for the context's work, as the vendor's does
  bool refuse_at_exit = false;  // calls after the exit handler answer CUDA_ERROR_DEINITIALIZED
  int64_t progress_ms = 500;    // work older than this runs although nobody waits; 0: never
  int driver_version = 0;       // cuDriverGetVersion
  std::string log_path;         // empty: no log. %p is the process id
  bool log_work = false;        // log each piece of work as it runs
  bool log_data = false;        // log a hash of the bytes of each copy between host and device
  std::vector<int> architectures{60, 70, 75, 80, 86, 90, 100, 120};  // what images hold code for: 86 is capability 8.6
  std::vector<Fault> faults;
  std::string error;  // the first bad value; cuInit reports it and fails

  // Reads SIMCUDA_*. Never fails: the error is kept for cuInit.
  static Config FromEnvironment();
};

// Parses "NAME:NTH:CODE[:sticky]". Returns false and leaves *fault alone when the text has another form.
bool ParseFault(const std::string& text, Fault* fault);

}  // namespace simcuda
