#include "cli/model/check.h"

#include <charconv>
#include <cmath>
#include <memory>

#include "engine/base/join.h"
#include "engine/base/table.h"
#include "engine/onnx/check.h"

namespace rivulet {
namespace {

struct CheckOptions {
  std::vector<std::string> folders;
  std::string rtol, atol;
  bool portable = false;
  bool open_batch = false;
  bool json = false;
};

Status ReadTolerance(const std::string& flag, const std::string& text, double& value) {
  if (text.empty()) return absl::OkStatus();
  const char* end = text.data() + text.size();
  if (std::from_chars(text.data(), end, value).ptr != end || !(value >= 0) || !std::isfinite(value))
    return UsageError("{} must be a number of at least 0, not '{}'", flag, text);
  return absl::OkStatus();
}

void PrintReport(const std::string& folder, const onnx::CheckReport& report, bool json) {
  if (json) {
    fmt::print("{}\n", JsonObject({{"case", folder},
                                   {"passed", report.passed},
                                   {"unsupported", report.unsupported},
                                   {"ops", Join(report.ops, ",")},
                                   {"open_batch", report.open_batch},
                                   {"data_sets", int64_t{report.data_sets}},
                                   {"outputs", int64_t{report.outputs}},
                                   {"largest_error", report.largest_error},
                                   {"largest_relative_error", report.largest_relative_error},
                                   {"message", TextCell(report.message)}}));
  } else if (report.passed) {
    fmt::print("{}: passed; {} output{}, largest error {:g}, relative {:g}{}\n", folder, report.outputs,
               report.outputs == 1 ? "" : "s", report.largest_error, report.largest_relative_error,
               report.open_batch ? "; open batch" : "");
  } else {
    fmt::print("{}: {}: {}\n", folder, report.unsupported ? "not supported" : "differs", OneLine(report.message));
  }
}

Status Check(const CheckOptions& arguments) {
  onnx::CheckOptions options;
  RIVULET_RETURN_IF_ERROR(ReadTolerance("--rtol", arguments.rtol, options.rtol));
  RIVULET_RETURN_IF_ERROR(ReadTolerance("--atol", arguments.atol, options.atol));
  options.kernels.portable = arguments.portable;
  options.open_batch = arguments.open_batch;
  size_t failed = 0;
  std::string first;
  for (const std::string& folder : arguments.folders) {
    const onnx::CheckReport report = onnx::CheckCase(folder, options);
    PrintReport(folder, report, arguments.json);
    if (report.passed) continue;
    if (failed++ == 0) first = fmt::format("{}: {}", folder, report.message);
  }
  if (failed == 0) return absl::OkStatus();
  if (arguments.folders.size() == 1) return FailedPrecondition("{}", first);
  return FailedPrecondition("{} of {} cases did not pass; the first is {}", failed, arguments.folders.size(), first);
}

}  // namespace

Command OnnxCheckCommand() {
  auto arguments = std::make_shared<CheckOptions>();
  Command check{.name = "check",
                .summary =
                    "Run cases of ONNX's own test layout (model.onnx, test_data_set_*/input_*.pb, output_*.pb) "
                    "and compare. Exit code 0 when all pass, 1 otherwise.",
                .example =
                    "rivulet model check onnx/node/test_conv_with_strides_padding\n"
                    "rivulet model check --json --rtol 1e-4 onnx/node/*"};
  check.Positional("DIR", &arguments->folders, "folders, one case each")
      .Option("--rtol", "R", &arguments->rtol, "relative tolerance: |actual - expected| per |expected| (default 1e-3)")
      .Option("--atol", "A", &arguments->atol, "absolute tolerance, added to that (default 1e-7)")
      .Flag("--portable", &arguments->portable, "use the portable kernels only")
      .Flag("--open-batch", &arguments->open_batch, "import with the first axis of every input open, if possible")
      .Flag("--json", &arguments->json, "print one JSON object per case");
  check.run = [arguments] { return Check(*arguments); };
  return check;
}

}  // namespace rivulet
