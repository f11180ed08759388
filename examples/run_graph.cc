// Runs a graph from a file, a GraphDef of Rivulet's or TensorFlow's: run_graph FILE.pb TENSOR
// Placeholders are fed halves; an open dimension, such as the batch, is 2.
#include <cstdio>
#include <fstream>
#include <iterator>

#include "dataflow/session/session.h"
#include "engine/graph/op.h"
#include "engine/graphdef/graph_def.h"
#include "engine/variables/variables.h"

namespace {

using namespace rivulet;

// A value for a placeholder: 0.5 where it holds floating numbers, else 0.
Tensor FeedFor(const Node& placeholder) {
  std::vector<int64_t> dims;
  for (int64_t size : placeholder.outputs()[0].shape.dims()) dims.push_back(size == kUnknownDim ? 2 : size);
  Tensor feed(placeholder.outputs()[0].dtype, Shape(std::move(dims)));
  if (feed.dtype() == DType::kFloat32)
    for (float& value : feed.flat<float>()) value = 0.5f;
  return feed;
}

Status Run(const char* path, const std::string& fetch) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  if (!file) return NotFound("{} cannot be read", path);
  RIVULET_ASSIGN_OR_RETURN(Graph graph, ParseGraph(bytes));
  std::printf("%s: %zu nodes\n", path, graph.nodes().size());

  RIVULET_ASSIGN_OR_RETURN(const Output output, graph.FindOutput(fetch));
  Session::Feeds feeds;
  for (const Node* node : graph.TopologicalOrder(std::vector<Node*>{output.node}))  // what the fetch needs
    if (node->type() == "Placeholder") feeds.emplace_back(node->name(), FeedFor(*node));
  const bool has_init = graph.Find(kInitTarget) != nullptr;

  RIVULET_ASSIGN_OR_RETURN(const auto session, Session::Create(std::move(graph), {.seed = 1}));
  if (has_init) RIVULET_RETURN_IF_ERROR(session->Run({}, {}, {kInitTarget}).status());
  RIVULET_ASSIGN_OR_RETURN(const auto values, session->Run(feeds, {fetch}));
  for (const auto& [name, tensor] : feeds)
    std::printf("fed %s %s%s\n", name.c_str(), std::string(Name(tensor.dtype())).c_str(),
                tensor.shape().ToString().c_str());
  std::printf("%s %s%s", fetch.c_str(), std::string(Name(values[0].dtype())).c_str(),
              values[0].shape().ToString().c_str());
  if (values[0].dtype() == DType::kFloat32)
    for (size_t i = 0; i < values[0].flat<float>().size() && i < 5; ++i)
      std::printf("%s %g", i == 0 ? " =" : "", values[0].flat<float>()[i]);
  std::printf("\n");
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: run_graph FILE.pb TENSOR\n");
    return 2;
  }
  const Status status = Run(argv[1], argv[2]);
  if (!status.ok()) std::fprintf(stderr, "run_graph: %s\n", std::string(Message(status)).c_str());
  return status.ok() ? 0 : 1;
}
