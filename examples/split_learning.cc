// Trains a model that is cut between two owners: the host has features and the bottom of the model, the guest has
// labels and the top. Activations and their gradient travel, and features and labels do not.
//   split_learning data DIR        writes DIR/features.tfrecord and DIR/labels.tfrecord
//   split_learning edges           prints the tensors that each owner has to list
//   split_learning joined DIR      trains in this process, which reads both files
//   split_learning TARGET          trains over `rivulet graph worker`s; TARGET is the guest's, "grpc://HOST:PORT"
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "dataflow/input/bound_data.h"
#include "dataflow/session/session.h"
#include "engine/data/example.h"
#include "engine/data/tfrecord.h"
#include "engine/gradients/gradients.h"
#include "engine/optimizers/apply_gradients.h"
#include "engine/variables/variables.h"

namespace {

using namespace rivulet;

constexpr int64_t kRecords = 512, kBatch = 32, kFeatures = 8, kHidden = 16, kClasses = 3, kSteps = 100;

// Writes records in one order on both sides: record i of either file is about the same person.
Status WriteData(const std::string& folder) {
  std::string features, labels;
  uint64_t state = 1;
  for (int64_t i = 0; i < kRecords; ++i) {
    std::vector<float> x(kFeatures);
    for (float& value : x)
      value = static_cast<float>((state = state * 6364136223846793005u + 1442695040888963407u) >> 40) / 0x1p23f - 1.0f;
    const int64_t label = std::max_element(x.begin(), x.begin() + kClasses) - x.begin();
    AppendRecordFrame(ExampleBuilder().Floats("x", x).Serialize(), features);
    AppendRecordFrame(ExampleBuilder().Int64("label", label).Serialize(), labels);
  }
  FileSystem& files = FileSystem::Default();
  RIVULET_RETURN_IF_ERROR(WriteFileAtomically(files, folder + "/features.tfrecord", features));
  return WriteFileAtomically(files, folder + "/labels.tfrecord", labels);
}

// Batches of one feature of the data set `name`, which the target "<name>/start" begins. Seeds of the shuffle are the
// same for both owners, so their batches have the same records.
Output Batches(const Scope& owner, const std::string& name, const std::string& feature, DType dtype, const Shape& one) {
  const Scope scope = owner.SubScope(name);
  const auto number = [&](int64_t value) { return scope.Const(Tensor::Scalar<int64_t>(value)); };
  const auto elements = [](DType type, const Shape& shape) {
    return AttrMap{{"output_types", std::vector{type}}, {"output_shapes", std::vector{shape}}};
  };
  AttrMap record = elements(DType::kString, {}), shuffle = record;
  record["name"] = name;
  shuffle["reshuffle_each_iteration"] = true;
  std::vector<int64_t> dims = {kBatch};
  dims.insert(dims.end(), one.dims().begin(), one.dims().end());
  const AttrMap batch = elements(dtype, Shape(dims));
  AttrMap parse = batch;
  parse.insert({{"dense_keys", std::vector<std::string>{feature}},
                {"Tdense", std::vector{dtype}},
                {"dense_shapes", std::vector{one}},
                {"sparse_keys", std::vector<std::string>{}},
                {"sparse_types", std::vector<DType>{}},
                {"ragged_keys", std::vector<std::string>{}},
                {"ragged_value_types", std::vector<DType>{}},
                {"ragged_split_types", std::vector<DType>{}}});
  Output data = scope.Op("BoundDataset", {}, record);
  data = scope.Op("ShuffleDataset", {data, number(kRecords), number(1), number(2)}, shuffle);
  data = scope.Op("RepeatDataset", {data, number(-1)}, elements(DType::kString, {}));
  data = scope.Op("BatchDatasetV2", {data, number(kBatch), scope.Const(Tensor::Scalar(true))},
                  elements(DType::kString, {kBatch}));
  data = scope.Op("ParseExampleDatasetV2", {data, number(1), scope.Const(Tensor(dtype, Shape{0}))}, parse);
  const Output iterator = scope.Op("IteratorV2", {}, batch, "iterator");
  scope.AddNode("MakeIterator", {data, iterator}, {}, "start");
  return scope.Op("IteratorGetNext", {iterator}, batch, "next");
}

struct Model {
  Graph graph;
  std::string train, gradient;  // "gradient": the loss by the activations
};

// Without `cut` no node names a task, and everything runs where the session does.
StatusOr<Model> Build(bool cut) {
  Model model;
  const Scope scope(model.graph);
  const Scope host = cut ? scope.WithDevice("/job:host") : scope, guest = cut ? scope.WithDevice("/job:guest") : scope;
  const Output x = Batches(host, "features", "x", DType::kFloat32, {kFeatures});
  const Output bottom = Variable(host, "bottom", {kFeatures, kHidden}, GlorotUniform());
  const Output activations = host.Op("Tanh", {host.Op("MatMul", {x, bottom})}, {}, "activations");

  const Output label = Batches(guest, "labels", "label", DType::kInt64, {});
  const Output top = Variable(guest, "top", {kHidden, kClasses}, GlorotUniform());
  const Output logits = guest.Op("MatMul", {activations, top}, {}, "logits");
  const Output losses = guest.Op("SparseSoftmaxCrossEntropyWithLogits", {logits, label});
  const Output loss = guest.Op("Mean", {losses, guest.Const(Tensor::Of<int32_t>({1}, {0}))}, {}, "loss");
  RIVULET_RETURN_IF_ERROR(scope.status());

  RIVULET_ASSIGN_OR_RETURN(const Output bottom_handle, FindVariable(model.graph, "bottom"));
  RIVULET_ASSIGN_OR_RETURN(const Output top_handle, FindVariable(model.graph, "top"));
  const std::vector<Output> variables = {bottom_handle, top_handle};
  // A gradient is computed where its forward node is, and the update where the variable is.
  RIVULET_ASSIGN_OR_RETURN(auto gradients,
                           ComputeGradients(model.graph, loss, std::vector{bottom_handle, top_handle, activations}));
  model.gradient = gradients[2].name();
  gradients.pop_back();
  RIVULET_ASSIGN_OR_RETURN(Node* const step,
                           ApplyGradients(scope, {.kind = "momentum", .learning_rate = 0.1}, variables, gradients));
  model.train = step->name();
  return model;
}

Status Train(Session& session, const Model& model) {
  RIVULET_RETURN_IF_ERROR(session.Run({}, {}, {kInitTarget, "features/start", "labels/start"}).status());
  for (int64_t step = 1; step <= kSteps; ++step) {
    RIVULET_ASSIGN_OR_RETURN(const auto values, session.Run({}, {"loss"}, {model.train}));
    const float loss = values[0].flat<float>()[0];
    if (step % 20 == 0) std::printf("step %3d  loss %.4f  %a\n", static_cast<int>(step), loss, loss);
  }
  return absl::OkStatus();
}

Status Run(const std::vector<std::string>& arguments) {
  if (arguments.size() == 2 && arguments[0] == "data") return WriteData(arguments[1]);
  const bool joined = arguments.size() == 2 && arguments[0] == "joined";
  if (arguments.size() != 1 && !joined)
    return InvalidArgument("it takes data, edges, joined or TARGET; see its first lines");
  RIVULET_ASSIGN_OR_RETURN(Model model, Build(!joined));
  if (arguments[0] == "edges") {
    std::printf("host: activations\nguest: %s loss\n", model.gradient.c_str());
    return absl::OkStatus();
  }
  SessionConfig config;
  config.seed = 1;
  if (!joined) config.target = arguments[0];
  RIVULET_ASSIGN_OR_RETURN(const auto session, Session::Create(std::move(model.graph), config));
  for (const char* name : {"features", "labels"})
    if (joined)
      RIVULET_RETURN_IF_ERROR(BindData(*session->resources(), name, {arguments[1] + "/" + name + ".tfrecord"}));
  return Train(*session, model);
}

}  // namespace

int main(int argc, char** argv) {
  const Status status = Run({argv + 1, argv + argc});
  if (!status.ok()) std::fprintf(stderr, "split_learning: %s\n", std::string(Message(status)).c_str());
  return status.ok() ? 0 : 1;
}
