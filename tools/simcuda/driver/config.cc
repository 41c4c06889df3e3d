#include "tools/simcuda/driver/config.h"

#include <algorithm>
#include <cstdlib>
#include <functional>

#include "tools/simcuda/driver/cuda_api.h"
#include "tools/simcuda/driver/device_table.h"

namespace simcuda {
namespace {

bool ParseUnsigned(const std::string& text, uint64_t* value) {
  if (text.empty() || text.size() > 19 || text.find_first_not_of("0123456789") != std::string::npos) return false;
  *value = std::strtoull(text.c_str(), nullptr, 10);
  return true;
}

// "4096" bytes, or a number with one of KiB, MiB, GiB (or K, M, G), which may have a fraction: "1.5GiB".
bool ParseBytes(const std::string& text, size_t* bytes) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (end == text.c_str() || !(number > 0)) return false;
  const std::string unit(end);
  double scale = 0;
  if (unit.empty() || unit == "B") scale = 1;
  if (unit == "K" || unit == "KiB") scale = 1024.0;
  if (unit == "M" || unit == "MiB") scale = 1024.0 * 1024;
  if (unit == "G" || unit == "GiB") scale = 1024.0 * 1024 * 1024;
  if (scale == 0 || number * scale > 1e14) return false;
  *bytes = static_cast<size_t>(number * scale);
  return true;
}

// Calls `parse` with the variable's value when it is set and not empty; a false answer becomes the error for cuInit.
void Read(Config* config, const char* name, const char* expected,
          const std::function<bool(const std::string&)>& parse) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return;
  if (!parse(value) && config->error.empty()) {
    config->error = std::string(name) + "=" + value + ": expected " + expected;
  }
}

// 0 to 255, decimal or as 0xff.
bool ParseByte(const std::string& text, int* byte) {
  uint64_t number = 0;
  if (text.size() > 2 && text.size() <= 4 && text[0] == '0' && (text[1] | 0x20) == 'x') {
    if (text.find_first_not_of("0123456789abcdefABCDEF", 2) != std::string::npos) return false;
    number = std::strtoull(text.c_str() + 2, nullptr, 16);
  } else if (!ParseUnsigned(text, &number) || number > 255) {
    return false;
  }
  *byte = static_cast<int>(number);
  return true;
}

bool ParseOrder(const std::string& text, Order* order) {
  if (text == "late") *order = Order::kLate;
  if (text == "random") *order = Order::kRandom;
  if (text == "eager") *order = Order::kEager;
  return text == "late" || text == "random" || text == "eager";
}

bool ParseSwitch(const std::string& text, bool* on) {
  *on = text == "1";
  return text == "0" || text == "1";
}

bool ParseFaults(const std::string& text, std::vector<Fault>* faults) {
  for (size_t start = 0; start <= text.size();) {
    const size_t comma = std::min(text.find(',', start), text.size());
    Fault fault;
    if (!ParseFault(text.substr(start, comma - start), &fault)) return false;
    faults->push_back(fault);
    start = comma + 1;
  }
  return true;
}

bool ParseArchitectures(const std::string& text, std::vector<int>* architectures) {
  architectures->clear();
  for (size_t start = 0; start <= text.size();) {
    const size_t comma = std::min(text.find(',', start), text.size());
    uint64_t number = 0;
    if (!ParseUnsigned(text.substr(start, comma - start), &number) || number < 20 || number > 999) return false;
    architectures->push_back(static_cast<int>(number));
    start = comma + 1;
  }
  return true;
}

}  // namespace

bool ParseFault(const std::string& text, Fault* fault) {
  std::vector<std::string> parts;
  for (size_t start = 0; start <= text.size();) {
    const size_t colon = std::min(text.find(':', start), text.size());
    parts.push_back(text.substr(start, colon - start));
    start = colon + 1;
  }
  uint64_t nth = 0, code = 0;
  if (parts.size() < 3 || parts.size() > 4 || parts[0].empty()) return false;
  if (!ParseUnsigned(parts[1], &nth) || nth == 0 || !ParseUnsigned(parts[2], &code) || code == 0 || code > 999)
    return false;
  if (parts.size() == 4 && parts[3] != "sticky") return false;
  *fault = Fault{parts[0], nth, static_cast<int>(code), parts.size() == 4, 0};
  return true;
}

Config Config::FromEnvironment() {
  Config config;
  uint64_t number = 0;
  Read(&config, "SIMCUDA_DEVICES", "a number from 0 to 32", [&](const std::string& text) {
    if (!ParseUnsigned(text, &number) || number > 32) return false;
    config.device_count = static_cast<int>(number);
    return true;
  });
  Read(&config, "SIMCUDA_MODEL", ("one of " + DeviceModelNames()).c_str(), [&](const std::string& text) {
    config.model = text;
    return FindDeviceModel(text) != nullptr;
  });
  Read(&config, "SIMCUDA_MEMORY", "bytes, or a number with KiB, MiB or GiB, at least 4 MiB",
       [&](const std::string& text) {
         return ParseBytes(text, &config.memory_bytes) && config.memory_bytes >= (4u << 20);
       });
  Read(&config, "SIMCUDA_CONTEXT_MEMORY", "bytes, or a number with KiB, MiB or GiB",
       [&](const std::string& text) { return ParseBytes(text, &config.context_bytes); });
  Read(&config, "SIMCUDA_ORDER", "late, random or eager",
       [&](const std::string& text) { return ParseOrder(text, &config.order); });
  Read(&config, "SIMCUDA_SEED", "a number", [&](const std::string& text) { return ParseUnsigned(text, &config.seed); });
  Read(&config, "SIMCUDA_FILL", "a number from 0 to 255, such as 0 or 0xff",
       [&](const std::string& text) { return ParseByte(text, &config.fill); });
  Read(&config, "SIMCUDA_FREE_SYNC", "0 or 1",
       [&](const std::string& text) { return ParseSwitch(text, &config.free_sync); });
  Read(&config, "SIMCUDA_REFUSE_AT_EXIT", "0 or 1",
       [&](const std::string& text) { return ParseSwitch(text, &config.refuse_at_exit); });
  Read(&config, "SIMCUDA_PROGRESS_MS", "milliseconds (0: never)", [&](const std::string& text) {
    if (!ParseUnsigned(text, &number) || number > 86'400'000) return false;
    config.progress_ms = static_cast<int64_t>(number);
    return true;
  });
  config.driver_version = CUDA_VERSION;
  Read(&config, "SIMCUDA_DRIVER_VERSION", "1000 * major + 10 * minor, from 11030", [&](const std::string& text) {
    if (!ParseUnsigned(text, &number) || number < 11030 || number > 99990) return false;
    config.driver_version = static_cast<int>(number);
    return true;
  });
  Read(&config, "SIMCUDA_LOG_WORK", "0 or 1",
       [&](const std::string& text) { return ParseSwitch(text, &config.log_work); });
  Read(&config, "SIMCUDA_LOG_DATA", "0 or 1",
       [&](const std::string& text) { return ParseSwitch(text, &config.log_data); });
  Read(&config, "SIMCUDA_ARCHITECTURES", "numbers like 80,86,90",
       [&](const std::string& text) { return ParseArchitectures(text, &config.architectures); });
  Read(&config, "SIMCUDA_FAULT", "NAME:NTH:CODE[:sticky], separated by commas",
       [&](const std::string& text) { return ParseFaults(text, &config.faults); });
  if (const char* path = std::getenv("SIMCUDA_LOG")) config.log_path = path;
  return config;
}

}  // namespace simcuda
