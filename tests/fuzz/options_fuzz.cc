// Fuzzes the options of the preload library: what stands in the environment. Whatever it is, each variable is
// understood or is the one that is refused, with a remedy; numbers lie in their ranges.
//
//   the texts of the table's variables one after the other, each ended by a newline; what is missing is not set
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "interpose/options/kept_texts.h"
#include "interpose/options/option_parse.h"

namespace options = cuheap::options;

namespace {

void Require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<std::string> environment;
  std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const options::Description& option : options::kDescriptions) {
    if (text.empty()) break;
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(line.size() == text.size() ? line.size() : line.size() + 1);
    std::string variable = std::string(option.variable) + "=" + std::string(line);
    if (variable.find('\0') == std::string::npos) environment.push_back(std::move(variable));
  }
  std::vector<const char*> pointers;
  for (const std::string& variable : environment) pointers.push_back(variable.c_str());
  pointers.push_back(nullptr);
  options::KeptTexts kept;
  kept.Fill(pointers.data());
  options::Options parsed;
  const options::Rejection rejection = options::ParseAll([&](const char* name) { return kept(name); }, &parsed);
  if (rejection.variable != nullptr) {
    Require(rejection.remedy != nullptr && *rejection.remedy != 0);
    Require(kept(rejection.variable) != nullptr);
    return 0;
  }
  Require(parsed.fill >= -1 && parsed.fill <= 255);
  return 0;
}
