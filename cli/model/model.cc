// rivulet model: models outside of a run.

#include <memory>

#include "cli/command.h"
#include "cli/model/base.h"
#include "cli/model/check.h"
#include "cli/model/diff.h"
#include "cli/model/evaluate.h"
#include "cli/model/explain.h"
#include "cli/model/format.h"
#include "cli/model/inspect.h"
#include "cli/model/point.h"
#include "engine/base/join.h"
#include "inspect/model_source.h"
#include "inspect/run_model.h"

namespace rivulet {
namespace {

struct ExportArguments {
  ModelSourceOptions source;
  std::string out, format;
  bool external_data = false;
  bool json = false;
};

// The names of formats that are written, or read.
std::vector<std::string> FormatsThat(bool write) {
  std::vector<std::string> names;
  for (const ModelFormat& format : ModelFormats())
    if (write ? format.write != nullptr : format.read != nullptr) names.push_back(format.name);
  return names;
}

Status Export(const ExportArguments& arguments) {
  RIVULET_ASSIGN_OR_RETURN(const ModelFormat* format, FindModelFormat(arguments.format, arguments.out));
  if (format->write == nullptr)
    return UsageError("{} is not written; formats that are: {}", format->name, Join(FormatsThat(true), ", "));
  RIVULET_ASSIGN_OR_RETURN(const ModelSource source, LoadModelSource(arguments.source));
  if (source.weights_alone && !format->weights_alone)
    return UsageError(
        "{} has weights without a graph, as its clients train in their own way; --format {} needs a graph. Formats of "
        "weights alone are npz, pytorch and safetensors",
        source.title, format->name);
  return format->write({source, arguments.out, arguments.external_data, arguments.json});
}

Status Merge(const ExportArguments& arguments) {
  RIVULET_ASSIGN_OR_RETURN(const ModelFormat* format, FindModelFormat(arguments.format, arguments.out));
  if (format->write == nullptr || format->name == "peft")
    return UsageError("a merged model has no adapters and is not written as {}; name another format with --format",
                      format->name);
  RIVULET_ASSIGN_OR_RETURN(const ModelSource source, LoadModelSource(arguments.source));
  RIVULET_ASSIGN_OR_RETURN(const ModelSource merged, WithoutAdapters(source));
  return format->write({merged, arguments.out, arguments.external_data, arguments.json});
}

struct ImportArguments {
  ImportRequest request;
  std::string format;
};

Status Import(const ImportArguments& arguments) {
  RIVULET_ASSIGN_OR_RETURN(const ModelFormat* format, FindModelFormat(arguments.format, arguments.request.file));
  if (format->read == nullptr)
    return UsageError("{} is not read; formats that are: {}", format->name, Join(FormatsThat(false), ", "));
  return format->read(arguments.request);
}

std::string FormatHelp(bool write) {
  std::vector<std::string> texts;
  for (const ModelFormat& format : ModelFormats())
    if (write ? format.write != nullptr : format.read != nullptr)
      texts.push_back(fmt::format("{} ({})", format.name, format.doc));
  return Join(texts, ", ");
}

Command ExportCommand() {
  auto arguments = std::make_shared<ExportArguments>();
  Command command{.name = "export",
                  .summary = "Write a model for other tools: its graph, its weights, or both.",
                  .example =
                      "rivulet model export mnist_cnn --out mnist_cnn.onnx\n  rivulet model export latest:best --out "
                      "mnist.onnx\n  rivulet model export mnist_cnn --out mnist_cnn.pb"};
  command
      .Positional(
          "WHAT", &arguments->source.what,
          "a preset, SCENARIO.toml, FILE.pb, FILE.onnx, a folder of `rivulet model import`, or RUN[:ROUND] of the "
          "history, ROUND being a number, 'latest' or 'best'")
      .Required("--out", "FILE", &arguments->out, "the file to write")
      .Option("--format", "FORMAT", &arguments->format, FormatHelp(true) + " [by FILE's ending]")
      .Option("--weights", "FILE.safetensors", &arguments->source.weights,
              "the weights, such as a model of a run's history [the initial values: of a scenario by its seed]")
      .Repeated("--output", "TENSOR", &arguments->source.outputs,
                "an output of the model [the scores; for a file, all tensors without consumers]")
      .Option("--db", "FILE", &arguments->source.db, "the history that has the run [./rivulet.sqlite]")
      .Option("--cluster", "K", &arguments->source.cluster, kClusterHelp, {.min = 0})
      .Option("--base", "FILE", &arguments->source.base,
              "the base of a run over one: a safetensors file or a folder [the run's model.base]")
      .Flag("--external-data", &arguments->external_data, "ONNX: write the weights to FILE.data")
      .Flag("--json", &arguments->json, "print one JSON object");
  command.run = [arguments] { return Export(*arguments); };
  return command;
}

Command MergeCommand() {
  auto arguments = std::make_shared<ExportArguments>();
  Command command{.name = "merge",
                  .summary = "Fold a model's adapters into its weights, and write it without them.",
                  .example =
                      "rivulet model merge latest --out merged.safetensors\n"
                      "  rivulet model merge latest:best --out merged.onnx"};
  command
      .Positional("WHAT", &arguments->source.what,
                  "SCENARIO.toml with a table [model.lora], or RUN[:ROUND] of the history, ROUND being a number, "
                  "'latest' or 'best'")
      .Required("--out", "FILE", &arguments->out, "the file to write")
      .Option("--format", "FORMAT", &arguments->format, "as of `rivulet model export` [by FILE's ending]")
      .Option("--weights", "FILE.safetensors", &arguments->source.weights,
              "the weights, adapters and all [of a run that round's, of a scenario the initial values by its seed]")
      .Option("--db", "FILE", &arguments->source.db, "the history that has the run [./rivulet.sqlite]")
      .Option("--cluster", "K", &arguments->source.cluster, kClusterHelp, {.min = 0})
      .Flag("--external-data", &arguments->external_data, "ONNX: write the weights to FILE.data")
      .Flag("--json", &arguments->json, "print one JSON object");
  command.run = [arguments] { return Merge(*arguments); };
  return command;
}

Command ImportCommand() {
  auto arguments = std::make_shared<ImportArguments>();
  ImportRequest& request = arguments->request;
  Command command{.name = "import",
                  .summary = "Import a model of other tools: its graph, with the weights as variables.",
                  .example =
                      "rivulet model import mnist.onnx --out mnist\n  "
                      "rivulet model import net.onnx --shape image=?,3,224,224 --out net"};
  command.Positional("FILE", &request.file, "the model")
      .Required("--out", "DIR", &request.out, "the folder to write to; created if missing")
      .Option("--format", "FORMAT", &arguments->format, FormatHelp(false) + " [by FILE's ending]")
      .Repeated("--shape", "NAME=SIZES", &request.shapes, "ONNX: the shape of an input, '?' for open sizes")
      .Repeated("--value", "NAME=NUMBERS", &request.values, "ONNX: replace an input by a constant of this value")
      .Option("--like", "WHAT", &request.like,
              "PEFT: the scenario or run of the model that the adapter belongs to; the weights written are the whole "
              "model's")
      .Flag("--json", &request.json, "print one JSON object");
  command.run = [arguments] { return Import(*arguments); };
  return command;
}

const RegisterCommand kModel(60, [] {
  Command command{.name = "model",
                  .summary = "Export, import, inspect, compare, check and point to models.",
                  .example = "rivulet model export mnist_cnn --out mnist_cnn.onnx"};
  command.subcommands = {ModelInspectCommand(),  ModelEvaluateCommand(), ModelDiffCommand(),    ExportCommand(),
                         ImportCommand(),        MergeCommand(),         OnnxCheckCommand(),    ModelPointCommand(),
                         ModelRollbackCommand(), ModelPointsCommand(),   ModelExplainCommand(), ModelBaseCommand()};
  return command;
});

}  // namespace
}  // namespace rivulet
