#include "analysis/reports/unseen.h"

#include <cstdint>

#include "interpose/journal/format.h"

namespace cuheap::analysis {
namespace {

// "libfoo.so (/path/to/libfoo.so)"; the journal keeps the end of a long path.
std::string Named(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return path;
  return path.substr(slash + 1) + " (" + (slash == 0 || path.front() == '/' ? "" : "...") + path + ")";
}

std::string Library(const Note& note) {
  const std::string name = Named(note.text);
  switch (static_cast<journal::UnseenWay>(note.a)) {
    case journal::UnseenWay::kOwnLookups:
      return "Allocations of " + name +
             " may not have been observed: it names the driver, and looks functions up by the C library's dlsym, past "
             "cuheap. Mostly it was opened with RTLD_DEEPBIND: open it without.";
    case journal::UnseenWay::kOtherDriver:
      return "Allocations of " + name +
             " were not observed: it uses another copy of the driver, in a namespace of its own (dlmopen) or by "
             "another "
             "path. Open it with dlopen, and the driver by its name libcuda.so.1.";
    case journal::UnseenWay::kDirect:
      break;
  }
  return "Allocations of " + name + " were not observed: it calls the driver past cuheap (" + std::to_string(note.b) +
         (note.b == 1 ? " address" : " addresses") +
         " of the driver's functions in its data). It was opened with RTLD_DEEPBIND, or took the addresses where "
         "cuheap "
         "does not answer: open it without that flag.";
}

}  // namespace

std::string DescribeUnseen(const Note& note) {
  if (note.code == "unseen_library") return Library(note);
  if (note.code == "unseen_driver") {
    return "Another copy of the driver is loaded, " + Named(note.text) +
           ": what is done through it was not observed. It comes from dlmopen, or from another path than the first.";
  }
  if (note.code == "unseen_process") {
    return "The process used " + Named(note.text) +
           ", and not one call came to cuheap: nothing of it was observed, leaks included.";
  }
  if (note.code == "unknown_address") {
    return "Calls of " + note.text +
           " may not have been observed: a look-up of that name gave an address that is none of the driver's exports.";
  }
  return {};
}

}  // namespace cuheap::analysis
