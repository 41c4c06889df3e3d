#include "tools/cuheap/parquet_export.h"

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>

#include "analysis/ranks/rank_identity.h"
#include "tools/cuheap/message.h"
#include "tools/cuheap/parquet_script.h"

namespace cuheap::tools {

absl::StatusOr<std::unique_ptr<FilterSink>> StartParquetWriter(const std::string& python) {
  std::string program = python;
  if (const char* named = std::getenv("CUHEAP_PYTHON"); program.empty() && named != nullptr) program = named;
  if (program.empty()) program = "python3";
  absl::StatusOr<std::unique_ptr<FilterSink>> writer = FilterSink::Start({program, "-c", kParquetScript}, "ready");
  if (writer.ok()) return writer;
  const std::string reason(writer.status().message());
  if (writer.status().code() != absl::StatusCode::kFailedPrecondition) {
    return absl::NotFoundError("parquet is written by a Python with pyarrow: " + reason +
                               "; name one with --python, or export csv or ndjson");
  }
  return absl::FailedPreconditionError(
      "parquet needs pyarrow, and " + program + " cannot load it (" + reason + "): " + ShellQuoted(program) +
      " -m pip install pyarrow, or name another Python with --python, or export csv or "
      "ndjson");
}

std::string ParquetHeader(const analysis::Snapshot& snapshot) {
  const analysis::RankIdentity identity = analysis::IdentifyRank(snapshot.process.launcher, "");
  const analysis::Process& process = snapshot.process;
  nlohmann::ordered_json header;
  header["rank"] = identity.rank ? nlohmann::ordered_json(*identity.rank) : nlohmann::ordered_json();
  header["host"] = process.host.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(process.host);
  header["pid"] = process.pid == 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(process.pid);
  header["start"] =
      process.start_realtime_ns == 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(process.start_realtime_ns);
  return header.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace cuheap::tools
