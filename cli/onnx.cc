#include "cli/onnx.h"

#include <fmt/ranges.h>

#include <charconv>
#include <cmath>
#include <memory>

#include "cli/table.h"
#include "engine/base/file_system.h"
#include "engine/graph/graph.h"
#include "engine/onnx/check.h"
#include "engine/onnx/import.h"
#include "engine/onnx/model_files.h"

namespace rivulet {
namespace {

struct CheckArguments {
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
                                   {"ops", fmt::format("{}", fmt::join(report.ops, ","))},
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

Status Check(const CheckArguments& arguments) {
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

struct ImportArguments {
  std::string file;
  std::string out;
  std::vector<std::string> shapes;
  bool json = false;
};

// "image=1,3,224,224"; "?" for a size that stays open.
StatusOr<std::pair<std::string, Shape>> ReadShape(const std::string& text) {
  const size_t equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0) return UsageError("--shape must be NAME=SIZES, not '{}'", text);
  std::vector<int64_t> dims;
  std::string_view rest = std::string_view(text).substr(equals + 1);
  while (!rest.empty()) {
    const std::string_view size = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), size.size() + 1));
    int64_t dim = kUnknownDim;
    if (size != "?" && (std::from_chars(size.data(), size.data() + size.size(), dim).ptr != size.data() + size.size() ||
                        size.empty() || dim < 0))
      return UsageError("--shape {}: '{}' is no size; give numbers and '?', with commas between", text, size);
    dims.push_back(dim);
  }
  return std::pair(text.substr(0, equals), Shape(std::move(dims)));
}

std::string Listed(const std::vector<onnx::OnnxValue>& values) {
  std::vector<std::string> texts;
  for (const onnx::OnnxValue& value : values)
    texts.push_back(fmt::format("{} {}{}", value.tensor, Name(value.spec.dtype), value.spec.shape.ToString()));
  return fmt::format("{}", fmt::join(texts, ", "));
}

Status Import(const ImportArguments& arguments) {
  onnx::ImportOptions options;
  for (const std::string& text : arguments.shapes) {
    RIVULET_ASSIGN_OR_RETURN(auto shape, ReadShape(text));
    options.shapes.insert(std::move(shape));
  }
  options.folder = FolderOf(arguments.file);
  RIVULET_ASSIGN_OR_RETURN(const std::string bytes, FileSystem::Default().ReadAll(arguments.file));
  StatusOr<onnx::OnnxModel> model = onnx::ImportOnnx(bytes, options);
  if (!model.ok()) return Annotate(model.status(), arguments.file);
  RIVULET_RETURN_IF_ERROR(onnx::WriteModelFiles(*model, arguments.out));
  int64_t parameters = 0;
  for (const onnx::OnnxWeight& weight : model->weights) parameters += weight.value.elements();
  const Fields fields = {{"graph", JoinPath(arguments.out, "graph.pb")},
                         {"weights", JoinPath(arguments.out, "model.safetensors")},
                         {"nodes", static_cast<int64_t>(model->graph.nodes().size())},
                         {"variables", static_cast<int64_t>(model->weights.size())},
                         {"parameters", parameters},
                         {"inputs", Listed(model->inputs)},
                         {"outputs", Listed(model->outputs)}};
  fmt::print("{}", arguments.json ? JsonObject(fields) + "\n" : FieldLines(fields));
  return absl::OkStatus();
}

}  // namespace

Command OnnxCheckCommand() {
  auto arguments = std::make_shared<CheckArguments>();
  Command check{.name = "check",
                .summary =
                    "Run cases of ONNX's own test layout (model.onnx, test_data_set_*/input_*.pb, output_*.pb) "
                    "and compare. Exit code 0 when all pass, 1 otherwise.",
                .example =
                    "rivulet model check onnx/node/test_conv_with_strides_padding\n"
                    "rivulet model check --json --rtol 1e-4 onnx/node/*"};
  check.Positional("DIR", &arguments->folders, "folders, a case each")
      .Option("--rtol", "R", &arguments->rtol, "largest |actual - expected| per |expected| (default 1e-3)")
      .Option("--atol", "A", &arguments->atol, "and besides (default 1e-7)")
      .Flag("--portable", &arguments->portable, "use the portable kernels only")
      .Flag("--open-batch", &arguments->open_batch, "import with the first axis of every input open, where that can be")
      .Flag("--json", &arguments->json, "print one JSON object per case");
  check.run = [arguments] { return Check(*arguments); };
  return check;
}

Command OnnxImportCommand() {
  auto arguments = std::make_shared<ImportArguments>();
  Command import{.name = "import",
                 .summary =
                     "Turn an ONNX model into a graph (graph.pb, a GraphDef) and its weights "
                     "(model.safetensors), which become variables.",
                 .example =
                     "rivulet model import mnist.onnx --out mnist\n"
                     "rivulet model import net.onnx --shape image=?,3,224,224 --out net"};
  import.Positional("FILE.onnx", &arguments->file, "the model")
      .Required("--out", "DIR", &arguments->out, "the folder to write; made where it is not there")
      .Repeated("--shape", "NAME=SIZES", &arguments->shapes, "the shape of an input, '?' for open sizes")
      .Flag("--json", &arguments->json, "print one JSON object");
  import.run = [arguments] { return Import(*arguments);
};
return import;
}  // namespace rivulet

}  // namespace rivulet
