// [model]: a preset, a graph, an ONNX model, arrays without a graph, or layers.
#include <algorithm>
#include <iterator>

#include "federated/scenario/keys.h"
#include "federated/scenario/piece_keys.h"
#include "federated/settings/setting_tables.h"

namespace rivulet::scenario {
namespace {

bool HasGraph(const Scenario& s) { return !s.model.graph.empty(); }
bool HasPreset(const Scenario& s) { return !s.model.preset.empty(); }
bool HasLayers(const Scenario& s) { return !s.model.layers.empty(); }
bool HasOnnx(const Scenario& s) { return !s.model.onnx.empty(); }
bool HasLayersOrOnnx(const Scenario& s) { return HasLayers(s) || !s.model.onnx.empty(); }
bool HasOneInput(const Scenario& s) { return s.model.inputs.empty(); }
bool HasShapeOfItsOwn(const Scenario& s) { return !HasGraph(s) && s.model.arrays.empty() && HasOneInput(s); }
bool HasObjective(const Scenario& s) { return HasLayersOrOnnx(s) || HasPreset(s); }
bool CanHaveInputs(const Scenario& s) { return HasLayersOrOnnx(s) || HasGraph(s); }
bool HasKindOfInput(const Scenario& s) { return HasLayersOrOnnx(s) && HasOneInput(s); }
bool IsGraphOfOneInput(const Scenario& s) { return HasGraph(s) && HasOneInput(s); }
bool IsNormalized(const Scenario& s) {
  const std::string& preset = s.model.preset;
  return preset == "resnet8" || preset == "resnet20" || preset == "mobilenet_v2";
}
bool HasLora(const Scenario& s) { return !s.model.lora.targets.empty(); }
Key&& ForGraph(Key&& key) { return std::move(key).When("model.graph", HasGraph, "model.graph is given"); }

// Options of the loss.
std::vector<Key> ObjectiveKeys() {
  return OptionKeys({.section = "model",
                     .kind = "objective",
                     .selector = "model.objective",
                     .chosen = [](const Scenario& s) { return HasObjective(s) ? s.model.objective : std::string(); },
                     .settings = RIVULET_FIELD(model.objective_settings),
                     .or_none = true});
}

Key&& ForLora(Key&& key) { return std::move(key).When("model.lora.targets", HasLora, "model.lora.targets is given"); }

std::vector<Key> LoraKeys() {
  return {
      Key("model.lora.targets", RIVULET_FIELD(model.lora.targets), "[\"*attention*\"]",
          "Low-rank adapters (LoRA, Hu et al. 2022): names of variables, in which `*` stands for any characters. Each "
          "product that a matching variable feeds gets x · A · B × alpha / rank beside it, and every variable of the "
          "model keeps its first value. A is drawn and B is zero, so that version 0 computes the model's own outputs. "
          "Dense products, einsum, embeddings and convolutions have adapters; vectors that match are passed over, and "
          "recurrent weights are refused. [Adapters](../guide/adapters.md).")
          .Default("`[]`: no adapters")
          .OfGraphs(),
      ForLora(
          Key("model.lora.rank", RIVULET_FIELD(model.lora.rank), "4", "Columns of A and rows of B.").Between(1, 65536)),
      ForLora(Key("model.lora.alpha", RIVULET_FIELD(model.lora.alpha), "32.0",
                  "Scale of the adapters: their products count alpha / rank.")
                  .Above(0)
                  .Below(1e6)),
      ForLora(Key("model.lora.dropout", RIVULET_FIELD(model.lora.dropout), "0.05",
                  "Dropout on the adapters' inputs while training. The model's own products see them whole.")
                  .Between(0, 0.999)),
      ForLora(Key("model.lora.freeze_a", RIVULET_FIELD(model.lora.freeze_a), "true",
                  "Trains B alone (FFA-LoRA, Sun et al. 2024): A keeps its first values, which are the same on every "
                  "client. Then the mean of the updates is the mean of the products, and half as much travels.")),
      ForLora(Key("model.lora.rslora", RIVULET_FIELD(model.lora.rslora), "true",
                  "Scales by alpha / √rank instead of alpha / rank (rsLoRA, Kalajdzievski 2023).")),
      ForLora(Key("model.lora.modules_to_save", RIVULET_FIELD(model.lora.modules_to_save), "[\"dense2/*\"]",
                  "Variables that stay trainable as a whole beside the adapters, such as a new head: names, in which "
                  "`*` stands for any characters.")
                  .Default("`[]`")),
  };
}

}  // namespace

std::vector<Key> ModelKeys() {
  std::vector<Key> keys = {
      Key("model.preset", RIVULET_FIELD(model.preset), "\"mlp\"",
          "A model by name, such as `logistic_regression`, `mlp`, `mnist_cnn`, `cifar_cnn`, `resnet20`, `char_lstm`; "
          "[models](models.md) lists them. Exactly one of `model.preset`, `model.graph`, `model.onnx`, "
          "`model.arrays` and `[[model.layers]]` is given."),
      Key("model.graph", RIVULET_FIELD(model.graph), "\"model.pb\"",
          "A model as a file: a `GraphDef` with variables and an `init` node. Clients need no new program for it.")
          .Path(),
      Key("model.onnx", RIVULET_FIELD(model.onnx), "\"model.onnx\"",
          "A model as an ONNX file, trained from the weights that it holds; [ONNX](onnx.md). Initializers that stand "
          "where weights stand are the variables.")
          .Path(),
      Key("model.arrays", RIVULET_FIELD(model.arrays), "\"init.safetensors\"",
          "A model without a graph: a safetensors file with the initial values. The plan carries names and shapes "
          "alone. Clients of the Python package train it in their own way ([Python](../guide/python.md)), and this "
          "program's own clients refuse such a run. Trained tensors are float32; tensors of other types are named in "
          "`model.freeze`.")
          .Path(),
      Key("model.base", RIVULET_FIELD(model.base), "\"base.safetensors\"",
          "Tensors that no task changes: a safetensors file, or a folder with several and Hugging Face's "
          "`model.safetensors.index.json`. The plan has its digest, and no version has its tensors. A client downloads "
          "it once and keeps it, or uses its own copy ([large models](../guide/large-models.md)). Beside "
          "`model.arrays` it has all other tensors. Of a model with a graph it has the variables that `[model.lora]` "
          "or `model.freeze` freezes; a variable that is trained begins with its value in it.")
          .Path()
          .OrNone(),
      Key("model.weights", RIVULET_FIELD(model.weights), "\"round-000050.safetensors\"",
          "Initial weights in the place of the model's first values: a safetensors file of the same names and shapes, "
          "from `rivulet model export` or the history; [weights](weights.md). The plan holds them, except those of "
          "`model.personal`.")
          .Path()
          .OfGraphs(),
      ForGraph(Key("model.loss", RIVULET_FIELD(model.loss), "\"mean_loss\"",
                   "Tensor of the graph that training minimises: a scalar, the mean over the batch.")),
      Key("model.metrics", RIVULET_FIELD(model.metrics), "[\"accuracy\", \"top_5\", \"auc\"]",
          fmt::format(
              "Metrics that evaluation reports beside the loss as `test/NAME`, and clients as `evaluate/NAME`. {} "
              "Of `model.graph` tensors of the graph: scalars, means over the batch. Of `model.arrays` the names "
              "of the clients' measurements.",
              PiecesInWords("metric")))
          .Default("`[\"accuracy\"]`; for labels also `\"exact_match\"`, for numbers `[\"mse\", \"mae\"]`"),
      Key("model.image_input", RIVULET_FIELD(model.image_input), "\"x\"",
          "Placeholder of the graph that `data.input_feature` is fed to.")
          .When("model.graph", IsGraphOfOneInput, "model.graph is given and model.inputs is not"),
      ForGraph(Key("model.label_input", RIVULET_FIELD(model.label_input), "\"y\"",
                   "Placeholder of the graph that `data.label_feature` is fed to.")),
      Key("model.layers", RIVULET_FIELD(model.layers), "[{ type = \"flatten\" }, { type = \"dense\", units = 10 }]",
          "A model as a list of layers, each a table `[[model.layers]]`; [models](models.md) has the types and "
          "their keys.")
          .Default("none"),
      Key("model.classes", RIVULET_FIELD(model.classes), "62", "Classes of a preset. 0: the preset's own.")
          .Between(0, 1e6)
          .When("model.preset", HasPreset, "model.preset is given"),
      Key("model.normalization", RIVULET_FIELD(model.normalization), "\"group\"",
          "Normalisation after each convolution: over the batch, of 8 groups of channels of each example, or none. "
          "Running statistics of `batch` are averaged over clients like weights.")
          .OneOf({"", "batch", "group", "none"})
          .Default("`\"batch\"`")
          .When("model.preset", IsNormalized, "model.preset is \"resnet8\", \"resnet20\" or \"mobilenet_v2\""),
      Key("model.target", RIVULET_FIELD(model.target), "\"numbers\"",
          "The target in `data.label_feature`. `class` is the number of one class; the last layer gives a score per "
          "class. `labels` is a 0 or a 1 for each of several labels; the last layer gives a score per label. "
          "`numbers` is one float or several; the last layer predicts each. [own data](../guide/own-data.md) has an "
          "example of each.")
          .OneOf({"class", "labels", "numbers"})
          .When("model.layers", HasLayersOrOnnx, "model.layers or model.onnx is given"),
      Key("model.objective", RIVULET_FIELD(model.objective), "\"focal\"",
          fmt::format(
              "Training's loss, of those that the target has. {} Scores of a class are compared with 1 for it and "
              "0 for the others.",
              PiecesInWords("objective")))
          .OneOf(SettingTableNames("objective"))
          .Default("`\"sparse_softmax_cross_entropy\"`; for labels `\"sigmoid_cross_entropy\"`, for numbers `\"mse\"`")
          .When("model.layers", HasObjective, "model.layers, model.onnx or model.preset is given"),
      Key("model.trainable", RIVULET_FIELD(model.trainable), "[\"position_table\"]",
          "Initializers of an ONNX file that are variables although they stand at no weight's place, or where the "
          "exporter merged them: names, in which `*` stands for any characters. `rivulet model import` prints the role "
          "of each.")
          .Default("`[]`")
          .When("model.onnx", HasOnnx, "model.onnx is given"),
      Key("model.freeze", RIVULET_FIELD(model.freeze), "[\"conv1/*\"]",
          "Variables that keep their first values: names, in which `*` stands for any characters. They cost no "
          "gradient, and are neither sent up nor aggregated.")
          .Default("`[]`"),
      Key("model.personal", RIVULET_FIELD(model.personal), "[\"dense3/*\"]",
          "Variables of which each client trains and keeps its own (FedPer, Arivazhagan et al. 2019): names, in which "
          "`*` stands for any characters. They leave no client, so that no version has them: `evaluation.every` must "
          "be 0, and the algorithm must not look at the base model. Clients measure a version with their own "
          "(`evaluation.federated_every`). Of a batch_norm its running statistics are meant too.")
          .Default("`[]`"),
      Key("model.inputs", RIVULET_FIELD(model.inputs),
          "[{ name = \"photo\", shape = [28, 28, 1] }, { name = \"age\", shape = [1], kind = \"values\" }]",
          "Several inputs, or one that is fed otherwise. Each is a table `[[model.inputs]]` of a name, a shape, a kind "
          "and the feature that it is fed from; [models](models.md#several-inputs) has its keys.")
          .Default("none")
          .When("model.layers", CanHaveInputs, "model.layers, model.onnx or model.graph is given"),
      Key("model.columns", RIVULET_FIELD(model.columns), "\"columns.json\"",
          "A `columns.json` of `rivulet data import csv`, or pooled by `rivulet data columns`. The model standardises "
          "its float inputs by its means and deviations, as constants in its graph. Examples are imported without "
          "`--standardise`, and stay valid for other means.")
          .Path()
          .OrNone()
          .When("model.layers", CanHaveInputs, "model.layers, model.onnx or model.graph is given"),
      Key("model.input.shape", RIVULET_FIELD(model.input.shape), "[32, 32, 3]",
          "Shape of one example: height, width and channels of an image, length of a text, number of values.")
          .Between(1, 1e9)
          .Default("the preset's or the ONNX model's own; required for `model.layers`")
          .When("model.graph", HasShapeOfItsOwn, "none of model.graph, model.arrays and model.inputs is given"),
      Key("model.input.kind", RIVULET_FIELD(model.input.kind), "\"values\"",
          "Kind of an example's feature: `pixels` are bytes, of which the model sees byte / 255; `values` are floats; "
          "`tokens` are integers below the vocabulary of the first `embedding`.")
          .OneOf({"pixels", "values", "tokens"})
          .When("model.layers", HasKindOfInput, "model.layers or model.onnx is given, and model.inputs is not"),
  };
  const auto after = std::ranges::find(keys, "model.objective", &Key::name) + 1;
  std::vector<Key> options = ObjectiveKeys();
  keys.insert(after, std::make_move_iterator(options.begin()), std::make_move_iterator(options.end()));
  for (Key& key : LoraKeys()) keys.push_back(std::move(key));
  return keys;
}

}  // namespace rivulet::scenario
