#include "tools/cuheap/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <map>
#include <memory>
#include <string_view>

#include "interpose/options/option_parse.h"
#include "tools/cuheap/message.h"
#include "tools/simcuda/driver/device_table.h"

namespace cuheap::tools {
namespace {

constexpr const char* kTopHelp = R"(
Examples:
  cuheap run -- python train.py              run a program; its snapshot is written when it ends
  cuheap report cuheap.python3.11.4711.json  who held the memory, what leaks, and what to look at
  cuheap diff before.json after.json         what changed between two runs
  cuheap run --simulate -- ./train           the same without a GPU

'cuheap COMMAND --help' tells the rest. reports.md explains every figure: in docs/ of the source tree,
in share/doc/cuheap/ beside bin/ where cuheap is installed.)";

constexpr const char* kRunHelp = R"(
The program runs as without cuheap: same output, signals, exit status. Nothing is said and no file
is written unless it used CUDA. Every process that did gets a snapshot of its own: -o names that of
the program itself, others get their process id before the extension. With many ranks name a folder:
its files are called rank0.HOST.PID.json, and nodes may share it. Or say how each file is called, with
%r (rank), %h (host), %p (process id), %e (program).

Where there is no CUDA driver (no libcuda.so.1) a program fails as it does without cuheap, for instance
with "CUDA driver version is insufficient", and cuheap says nothing: use --simulate there. Programs with
the static CUDA runtime, nvcc's default, cannot run on the simulated GPU: compile with -cudart shared.

Examples:
  cuheap run -- python train.py --epochs 3
  cuheap run -o first.json -- ./train          the snapshot's name
  cuheap run -o ranks/ -- torchrun --nproc-per-node 8 train.py     then: cuheap report ranks/
  cuheap run --observe -- ./train              record only; the program keeps the driver's own memory
  cuheap run --pool -- python train.py         no cache of PyTorch's own: every tensor from cuheap's pool
  cuheap run --simulate=h100 -- ./train        no GPU: a simulated one
  cuheap run --stacks=off -- ./serve           cheapest: totals, but no lines

Exit status: the program's (a program that dies by a signal makes cuheap die by it); 126 if the program
cannot be run, 127 if it is not found, 2 if cuheap itself is at fault before the program starts.)";

constexpr const char* kReportHelp = R"(
Examples:
  cuheap report first.json
  cuheap report --json first.json | jq '.leaks[0].line.text'
  cuheap report --html first.html first.json           a page to look at, with timeline and flame graph
  cuheap report --ignore my::DeviceBuffer first.json   charge a wrapper's memory to its callers
  cuheap report runs/                                  the processes of a run (ranks) beside each other
  cuheap report --top 32 rank*.json                    the same of files that are named
  ssh node cat run.json.zst | cuheap report -          from standard input

Exit status: 0, whatever the verdict; 2 if a file could not be read (the report of the others is printed).)";

constexpr const char* kRecoverHelp = R"(
For journals that were left behind: a process outlived `cuheap run`, which then named their folder, or
cuheap itself was killed and could not. The folder is called cuheap-UID-PID-XXXXXX, PID being cuheap's,
and lies where --journal-dir said, else in the first of these with room:
  /dev/shm  $TMPDIR  /tmp  $XDG_RUNTIME_DIR  /var/tmp
Folder and journals stay: remove them when the snapshots are what you wanted.

Example:
  ls -d /dev/shm/cuheap-$(id -u)-*
  cuheap recover /dev/shm/cuheap-1000-4711-Xa3b9c)";

std::string SnapshotHelp() {
  return "A snapshot made by cuheap run or by PyTorch (_dump_snapshot); - is standard input. Several, or folders of "
         "them: the processes of one run, compared";
}

constexpr std::string_view kCommands[] = {"run", "report", "export", "diff", "recover"};

// The commands of later versions are known by name, so that they get an answer and not "unknown".
constexpr std::pair<const char*, const char*> kNotYet[] = {
    {"top", "live view"},
    {"snapshot", "snapshot of a running process"},
    {"fit", "whether a training fits a GPU"},
};

Done Error(const std::string& text, const std::string& command = {}) {
  return {kUsageError, text + " (see: cuheap " + (command.empty() ? "" : command + " ") + "--help)"};
}

// Where the program's own words begin: after "--", or at the first word that is neither an option nor an option's
// value.
std::size_t CommandBegin(const CLI::App& app, const std::vector<std::string>& arguments, std::size_t from) {
  for (std::size_t i = from; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (word == "--" || word.empty() || word[0] != '-' || word == "-") return i;
    if (word.find('=') != std::string::npos) continue;
    const CLI::Option* option = app.get_option_no_throw(word);
    // -oFILE holds its value already.
    if (option != nullptr && option->get_items_expected_min() > 0 && i + 1 < arguments.size() &&
        arguments[i + 1] != "--")
      ++i;
  }
  return arguments.size();
}

// CLI11 takes its words in reverse order.
void Parse(CLI::App& app, std::vector<std::string> words) {
  std::reverse(words.begin(), words.end());
  app.parse(words);
}

// The least and the greatest memory of a simulated GPU, in bytes.
constexpr options::Range kSimulatedMemory{std::uint64_t{4} << 20, std::uint64_t{1} << 49};

bool IsCount(const std::string& text) {
  return !text.empty() && text.size() < 10 &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

// Says "cuheap run [OPTIONS] -- PROGRAM", which CLI11 does not know of.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* app, std::string) const override {
    const std::string& name = app->get_name();
    if (name == "run") return "Usage: cuheap run [OPTIONS] -- PROGRAM [ARGUMENTS]\n";
    if (name == "report") return "Usage: cuheap report [OPTIONS] SNAPSHOT|DIR|-...\n";
    if (name == "export") return "Usage: cuheap export [OPTIONS] --format FORMAT SNAPSHOT|-\n";
    if (name == "diff") return "Usage: cuheap diff [OPTIONS] BEFORE AFTER\n";
    if (name == "recover") return "Usage: cuheap recover [OPTIONS] DIR|JOURNAL\n";
    return "Usage: cuheap COMMAND [OPTIONS] ...\n";
  }
  // Wrapped, since the table's texts are long; CLI11 indents what follows a newline.
  std::string make_option_desc(const CLI::Option* option) const override {
    constexpr std::size_t kWidth = 68;
    std::string wrapped;
    std::size_t column = 0;
    const std::string& description = option->get_description();
    std::string_view rest = description;
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find(' '), rest.size());
      if (column != 0 && column + 1 + end > kWidth) {
        wrapped += '\n';
        column = 0;
      }
      if (column != 0) {
        wrapped += ' ';
        ++column;
      }
      wrapped += rest.substr(0, end);
      column += end;
      rest.remove_prefix(std::min(rest.size(), end + 1));
    }
    return wrapped;
  }
};

class Parser {
 public:
  Parser()
      : app_("cuheap: GPU memory of unmodified CUDA programs: who holds it, what leaks, what to change", "cuheap") {
    app_.set_version_flag("--version", "cuheap " CUHEAP_VERSION);
    app_.footer(kTopHelp);
    const auto formatter = std::make_shared<HelpFormatter>();
    formatter->column_width(32);
    app_.formatter(formatter);
    app_.require_subcommand(1);
    run_ = app_.add_subcommand("run", "Run a program, record its GPU memory, write a snapshot when it ends");
    report_ = app_.add_subcommand("report", "Print what a snapshot tells");
    export_ = app_.add_subcommand("export", "Write a snapshot in the format of another program");
    diff_ = app_.add_subcommand("diff", "Compare two snapshots: what changed, and whether that is too much");
    recover_ = app_.add_subcommand("recover", "Make snapshots of journals that were left behind");
    AddRun();
    AddReport();
    export_arguments_.AddTo(*export_);
    diff_arguments_.AddTo(*diff_);
    AddRecover();
  }

  Command Parse(std::vector<std::string> arguments) {
    if (!arguments.empty() && arguments[0] == "help") {  // "help run" is "run --help"
      arguments.erase(arguments.begin());
      if (arguments.size() > 1) return Error("help takes one command, not '" + arguments[1] + "' too");
      arguments.emplace_back("--help");
    }
    if (arguments.empty() || arguments[0].empty())
      return Done{kUsageError, "no command given: run, report, export, diff or recover (see: cuheap --help)"};
    for (const auto& [name, what] : kNotYet) {
      if (arguments[0] == name) return Error("'" + arguments[0] + "' (" + what + ") is not there yet");
    }
    if (arguments[0][0] != '-' &&
        std::find(std::begin(kCommands), std::end(kCommands), arguments[0]) == std::end(kCommands))
      return Error("unknown command '" + arguments[0] + "': run, report, export, diff or recover");
    const std::string& first = arguments[0];
    if (first[0] == '-' && first != "-h" && first != "--help" && first != "--version")
      return Error("unknown option '" + first + "'");
    std::vector<std::string> own = arguments;
    if (arguments[0] == "run") {
      const std::size_t begin = CommandBegin(*run_, arguments, 1);
      own.resize(begin);
      options_.run.command.assign(arguments.begin() + static_cast<std::ptrdiff_t>(begin), arguments.end());
      if (!options_.run.command.empty() && options_.run.command[0] == "--")
        options_.run.command.erase(options_.run.command.begin());
    }
    try {
      tools::Parse(app_, own);
    } catch (const CLI::CallForHelp&) {
      return Done{0, HelpText()};
    } catch (const CLI::CallForVersion&) {
      return Done{0, "cuheap " CUHEAP_VERSION "\n"};
    } catch (const CLI::ParseError& error) {
      const bool lacks = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
      return Error(lacks ? WhatIsMissing(error) : OneLine(error.what()), Parsed());
    }
    if (run_->parsed()) return FinishRun();
    if (report_->parsed()) return FinishReport();
    if (export_->parsed()) {
      if (const std::string problem = export_arguments_.Check(); !problem.empty()) return Error(problem, "export");
      return export_arguments_.options();
    }
    if (diff_->parsed()) return FinishDiff();
    return options_.recover;
  }

 private:
  struct {
    RunOptions run;
    ReportOptions report;
    RecoverOptions recover;
  } options_;

  void AddRun() {
    run_->footer(kRunHelp);
    run_->add_option(
            "-o,--output", options_.run.output,
            "Snapshot of the program (default: cuheap.PROGRAM.PID.json here), or a folder for those of all processes")
        ->type_name("FILE|DIR/");
    run_->add_flag("-q,--quiet", options_.run.quiet, "Say nothing when the program ended (errors are still said)");
    run_->add_flag("--observe", observe_, "Record only: every allocation goes to the driver as it is");
    run_->add_flag(
        "--pool", pool_,
        "Bypass the caches of PyTorch, JAX and TensorFlow: every tensor is one allocation, served from "
        "cuheap's pool and seen with its stream. PyTorch's memory_snapshot(), MemPool and sharing of tensors "
        "between processes are not available then");
    AddLibraryOptions();
    run_->add_option("--journal-dir", options_.run.journal_folder,
                     "Where the journal goes: a local folder with space (default: chosen)")
        ->type_name("DIR");
    simulate_ =
        run_->add_option("--simulate", model_,
                         "Use a simulated GPU, of the given model if one is named: " + simcuda::DeviceModelNames() +
                             ". Default: h100")
            ->type_name("[=MODEL]")
            ->expected(0, 1)
            ->group("Simulated GPU");
    run_->add_option("--simulate-devices", simulated_devices_, "Number of simulated GPUs (default: 1)")
        ->type_name("N")
        ->group("Simulated GPU");
    run_->add_option("--simulate-memory", simulated_memory_, "Memory of each, e.g. 24GiB (default: the model's)")
        ->type_name("BYTES")
        ->group("Simulated GPU");
    run_->add_option("--simulate-order", simulated_order_, "Order of the work of streams: late, random, eager")
        ->type_name("ORDER")
        ->group("Simulated GPU");
    run_->add_option("--simulate-seed", simulated_seed_, "Seed of that order")->type_name("N")->group("Simulated GPU");
    run_->add_option("--simulate-log", simulated_log_, "File that every simulated call is written to")
        ->type_name("FILE")
        ->group("Simulated GPU");
  }

  // One flag for every option of the preload library: CUHEAP_FREE_BARRIER is --free-barrier.
  void AddLibraryOptions() {
    for (const options::Description& option : options::kDescriptions) {
      const std::string variable = option.variable;
      if (variable == "CUHEAP_DIR" || variable == "CUHEAP_MODE" || variable == "CUHEAP_PYTHON_STACKS" ||
          variable.starts_with("CUHEAP_TEST_")) {
        continue;  // said by other flags, or by none
      }
      const bool stacks = variable == "CUHEAP_STACKS";
      const std::string help = stacks
                                   ? "Record the stack of every allocation: full (native and Python frames), native, "
                                     "off. Default: full"
                                   : std::string(option.help) + " Default: " + option.default_value;
      run_->add_option(FlagOf(variable), library_values_[variable], help)
          ->type_name(stacks ? "full|native|off" : TypeName(option.kind))
          ->group("Pool and recording");
    }
  }

  static std::string FlagOf(const std::string& variable) {
    std::string flag = "--" + variable.substr(std::string_view("CUHEAP_").size());
    std::transform(flag.begin(), flag.end(), flag.begin(),
                   [](unsigned char c) { return c == '_' ? '-' : static_cast<char>(std::tolower(c)); });
    return flag;
  }

  static const char* TypeName(options::Kind kind) {
    switch (kind) {
      case options::Kind::kFlag:
        return "0|1";
      case options::Kind::kNumber:
        return "N";
      case options::Kind::kBytes:
        return "BYTES";
      case options::Kind::kByte:
        return "BYTE|off";
      case options::Kind::kMode:
        return "default|pool|observe";
      case options::Kind::kBarrier:
        return "auto|always|never";
      case options::Kind::kRule:
        return "none|RULE";
      case options::Kind::kText:
        break;
    }
    return "TEXT";
  }

  // What the library would reject when the program is under way is rejected now: flags, and the environment that the
  // program inherits. Empty: all is well.
  std::string SetLibraryOptions() {
    if (std::string& stacks = library_values_["CUHEAP_STACKS"]; stacks == "full" || stacks == "native") {
      library_values_["CUHEAP_PYTHON_STACKS"] = stacks == "full" ? "1" : "0";
      stacks = "1";
    }
    for (const options::Description& option : options::kDescriptions) {
      std::string& value = library_values_[option.variable];
      const bool stacks = std::string_view(option.variable) == "CUHEAP_STACKS";
      if (std::string_view(option.variable) == "CUHEAP_MODE" && (observe_ || pool_)) value = pool_ ? "pool" : "observe";
      const char* inherited = std::getenv(option.variable);
      const char* remedy = "";
      if (!value.empty()) {
        if (!options::Valid(option, value, &remedy))
          return FlagOf(option.variable) + " " + value + ": " + (stacks ? "use full, native or off" : remedy);
        options_.run.environment.emplace_back(option.variable, value);
      } else if (inherited != nullptr && *inherited != '\0' && !options::Valid(option, inherited, &remedy)) {
        return "the environment has " + std::string(option.variable) + "=" + inherited + ": " + remedy;
      }
    }
    return {};
  }

  void AddReport() {
    report_->footer(kReportHelp);
    report_->add_option("snapshot", options_.report.paths, SnapshotHelp())->required()->type_name("SNAPSHOT|DIR|-");
    report_->add_flag("--json", options_.report.json, "The same facts for scripts (see reports.md)");
    html_ = report_
                ->add_option("--html", options_.report.html,
                             "Write the report as one HTML page that needs no other file and no network; - is standard "
                             "output")
                ->type_name("FILE");
    report_
        ->add_option("--at", report_at_,
                     "Only what was held then: peak, device-peak, end, leaked, a time since the start such as 1.5s, or "
                     "step:N for the end of that step")
        ->type_name("WHEN");
    report_
        ->add_option("--by", by_,
                     "What the table of the peak is of: line; library (CUDA library, package or program); lifetime "
                     "(the whole run, across steps, within a step, ...). Default: line")
        ->type_name("WHAT");
    report_->add_flag("--map", options_.report.map, "Where the blocks lie in the pool, or in PyTorch's cache");
    report_->add_flag("--no-stacks", no_stacks_, "Leave out the findings' stacks");
    report_->add_flag("--no-source", no_source_, "Show no lines of the program's source, and guess nothing from them");
    report_
        ->add_option("--ignore", options_.report.ignore,
                     "Never charge memory to a frame with this in its function, file or library; repeatable")
        ->type_name("TEXT")
        ->expected(1)
        ->take_all();
    display_.AddTo(*report_);
  }

  void AddRecover() {
    recover_->footer(kRecoverHelp);
    recover_->add_option("journal", options_.recover.path, "A journal, or the folder that holds journals")
        ->required()
        ->type_name("DIR|JOURNAL");
    recover_
        ->add_option("-o,--output", options_.recover.output,
                     "Snapshot's name (default: cuheap.PROGRAM.PID.json here), or a folder")
        ->type_name("FILE|DIR/");
    recover_->add_flag("-q,--quiet", options_.recover.quiet, "Say nothing but errors");
  }

  // The command that was named; empty: none.
  std::string Parsed() const {
    for (const CLI::App* command : {run_, report_, export_, diff_, recover_}) {
      if (command->parsed()) return command->get_name();
    }
    return {};
  }

  std::string HelpText() {
    for (CLI::App* command : {run_, report_, export_, diff_, recover_}) {
      if (command->parsed()) return command->help("cuheap");
    }
    return app_.help();
  }

  // CLI11 would name the positional, as "after is required".
  std::string WhatIsMissing(const CLI::ParseError& error) const {
    if (report_->parsed() && html_->count() != 0) {
      const std::string given = html_->as<std::string>();
      return "no snapshot given: --html takes the page's name before it, as in --html page.html " +
             (given.ends_with(".html") ? "snapshot.json" : given);
    }
    if (report_->parsed() || export_->parsed()) return "no snapshot given";
    if (diff_->parsed()) return "two snapshots are compared: BEFORE and AFTER";
    if (recover_->parsed()) return "no journal given, and no folder of journals";
    return OneLine(error.what());
  }

  static std::string OneLine(std::string text) {
    std::replace(text.begin(), text.end(), '\n', ' ');
    while (!text.empty() && text.back() == ' ') text.pop_back();
    return text;
  }

  Command FinishRun() {
    RunOptions& run = options_.run;
    if (pool_ && observe_) return Error("--pool serves, --observe does not: use one of them", "run");
    if (const auto served = library_values_.find("CUHEAP_STREAM_POOL");
        pool_ && served != library_values_.end() && !served->second.empty() && served->second != "1") {
      return Error("--pool needs --stream-pool 1", "run");
    }
    run.pool = pool_;
    if (run.command.empty() || run.command[0].empty()) return Error("no program given", "run");
    if (const std::string problem = SetLibraryOptions(); !problem.empty()) return Error(problem, "run");
    const auto set = [&](const char* variable, const std::string& value) {
      if (!value.empty()) run.environment.emplace_back(variable, value);
    };
    return FinishSimulation(set);
  }

  template <typename Set>
  Command FinishSimulation(const Set& set) {
    RunOptions& run = options_.run;
    run.simulate = simulate_->count() != 0;
    const std::pair<const char*, const std::string*> needs[] = {{"--simulate-devices", &simulated_devices_},
                                                                {"--simulate-memory", &simulated_memory_},
                                                                {"--simulate-order", &simulated_order_},
                                                                {"--simulate-seed", &simulated_seed_},
                                                                {"--simulate-log", &simulated_log_}};
    for (const auto& [name, value] : needs) {
      if (!value->empty() && !run.simulate) return Error(std::string(name) + " needs --simulate", "run");
    }
    if (!simulated_devices_.empty() &&
        (!IsCount(simulated_devices_) || std::stoul(simulated_devices_) < 1 || std::stoul(simulated_devices_) > 32)) {
      return Error("--simulate-devices: use a number from 1 to 32, not '" + simulated_devices_ + "'", "run");
    }
    if (!simulated_order_.empty() && simulated_order_ != "late" && simulated_order_ != "random" &&
        simulated_order_ != "eager") {
      return Error("--simulate-order: use late, random or eager, not '" + simulated_order_ + "'", "run");
    }
    if (!simulated_seed_.empty() && !IsCount(simulated_seed_))
      return Error("--simulate-seed: use a number, not '" + simulated_seed_ + "'", "run");
    if (!model_.empty() && simcuda::FindDeviceModel(model_) == nullptr) {
      return Error("--simulate: no such model: '" + model_ + "'; use one of " + simcuda::DeviceModelNames(), "run");
    }
    if (!simulated_memory_.empty()) {
      std::uint64_t bytes = 0;
      const char* remedy = nullptr;
      if (!options::ParseBytes(simulated_memory_, kSimulatedMemory, &bytes, &remedy)) {
        return Error("--simulate-memory: use a size such as 24GiB, at least 4MiB, not '" + simulated_memory_ + "'",
                     "run");
      }
      simulated_memory_ = std::to_string(bytes);
    }
    set("SIMCUDA_MODEL", model_);
    set("SIMCUDA_DEVICES", simulated_devices_);
    set("SIMCUDA_MEMORY", simulated_memory_);
    set("SIMCUDA_ORDER", simulated_order_);
    set("SIMCUDA_SEED", simulated_seed_);
    set("SIMCUDA_LOG", simulated_log_);
    // What the simulated driver hands out itself is filled as what the pool does.
    if (const std::string& fill = library_values_["CUHEAP_FILL"]; run.simulate && fill != "off")
      set("SIMCUDA_FILL", fill);
    return run;
  }

  std::string ReadReportAt() {
    ReportOptions& report = options_.report;
    if (report_at_.empty()) return {};
    constexpr std::string_view kStep = "step:";
    if (const bool step = report_at_.starts_with(kStep); !step) {
      report.at = analysis::ParseMoment(report_at_);
    } else if (const std::string number = report_at_.substr(kStep.size()); IsCount(number) && number != "0") {
      report.at = analysis::Moment{analysis::MomentKind::kTime, 0};
      report.at_step = static_cast<std::uint32_t>(std::stoul(number));
    }
    if (!report.at) {
      return "--at: use peak, device-peak, end, leaked, a time such as 1.5s or 250ms, or step:N, not '" + report_at_ +
             "'";
    }
    if (report.json || !report.html.empty())
      return "--at prints text: leave out --json and --html (or use cuheap export)";
    if (by_ == "lifetime") return "--at tells by line or by library";
    if (report.map) return "--at tells who held what, not where it lay: leave out --map";
    return {};
  }

  Command FinishReport() {
    ReportOptions& report = options_.report;
    report.stacks = !no_stacks_;
    report.source = !no_source_;
    if (html_->count() != 0 && report.html.empty())
      return Error("--html: name the page, as in --html report.html", "report");
    if (report.json && !report.html.empty()) return Error("--json and --html: use one of them", "report");
    if (const std::string problem = ReadReportAt(); !problem.empty()) return Error(problem, "report");
    if (by_ == "library")
      report.peak_by = analysis::PeakBy::kLibrary;
    else if (by_ == "lifetime")
      report.peak_by = analysis::PeakBy::kLifetime;
    else if (!by_.empty() && by_ != "line")
      return Error("--by: use line, library or lifetime, not '" + by_ + "'", "report");
    if (report.paths.size() > 1 && std::find(report.paths.begin(), report.paths.end(), "-") != report.paths.end())
      return Error("standard input holds one snapshot: of several processes, name the files or their folder", "report");
    if (const std::string problem = display_.Read(&report.display); !problem.empty()) return Error(problem, "report");
    return report;
  }

  Command FinishDiff() {
    if (const std::string problem = diff_arguments_.Read(); !problem.empty()) return Error(problem, "diff");
    return diff_arguments_.options();
  }

  CLI::App app_;
  CLI::App *run_ = nullptr, *report_ = nullptr, *export_ = nullptr, *diff_ = nullptr, *recover_ = nullptr;
  DisplayFlags display_;
  DiffArguments diff_arguments_;
  ExportArguments export_arguments_;
  CLI::Option *simulate_ = nullptr, *html_ = nullptr;
  bool observe_ = false, pool_ = false, no_stacks_ = false, no_source_ = false;
  std::map<std::string, std::string> library_values_;
  std::string by_, report_at_, model_, simulated_devices_, simulated_memory_, simulated_order_, simulated_seed_,
      simulated_log_;
};

}  // namespace

Command ParseCommandLine(const std::vector<std::string>& arguments) { return Parser().Parse(arguments); }

}  // namespace cuheap::tools
