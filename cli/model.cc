// rivulet model: models by themselves.
#include <fmt/ranges.h>

#include <memory>

#include "cli/command.h"
#include "cli/onnx.h"
#include "engine/base/file_system.h"
#include "engine/graph/graph_def.h"
#include "engine/models/presets.h"

namespace rivulet {
namespace {

struct Options {
  std::string preset;
  std::string out;
};

Status Export(const Options& options) {
  StatusOr<ModelDef> model = Preset(options.preset);
  if (!model.ok()) return AsUsageError(model.status());
  RIVULET_RETURN_IF_ERROR(WriteFileAtomically(FileSystem::Default(), options.out, SerializeGraph(model->graph)));
  fmt::print("{}: {} nodes; inputs {}, {}; loss {}", options.out, model->graph.nodes().size(), model->input.placeholder,
             model->label.placeholder, model->eval_loss);
  for (const auto& [name, tensor] : model->metrics) fmt::print("; {} {}", name, tensor);
  fmt::print("\n");
  return absl::OkStatus();
}

const RegisterCommand kModel(60, [] {
  auto options = std::make_shared<Options>();
  Command exporting{.name = "export",
                    .summary = "Write the graph of a preset as a GraphDef file, which model.graph in a scenario takes.",
                    .example = "rivulet model export mnist_cnn --out mnist_cnn.pb"};
  exporting.Positional("PRESET", &options->preset, fmt::format("one of {}", fmt::join(PresetNames(), ", ")))
      .Required("--out", "FILE.pb", &options->out, "where to write it");
  exporting.run = [options] { return Export(*options); };
  Command command{
      .name = "model", .summary = "Work with models.", .example = "rivulet model export mnist_cnn --out mnist_cnn.pb"};
  command.subcommands = {std::move(exporting), OnnxImportCommand(), OnnxCheckCommand()};
  return command;
});

}  // namespace
}  // namespace rivulet
