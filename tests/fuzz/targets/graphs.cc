// Graphs of ours and of TensorFlow, models of ONNX, and what the debugger is told of tensors.
#include <google/protobuf/text_format.h>

#include <cstdlib>

#include "engine/debug/slice.h"
#include "engine/graphdef/graph_def.h"
#include "engine/onnx/import.h"
#include "engine/presets/presets.h"
#include "proto/onnx/onnx.pb.h"
#include "tests/engine/graphdef/tensor_message.h"
#include "tests/fuzz/target.h"

namespace rivulet::fuzz {
namespace {

constexpr char kSmallGraph[] = R"(
  node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } }
         attr { key: "shape" value { shape { dim { size: 2 } dim { size: 3 } } } } }
  node { name: "axis" op: "Const" attr { key: "dtype" value { type: DT_INT32 } }
         attr { key: "value" value { tensor { dtype: DT_INT32 tensor_shape { } int_val: 1 } } } }
  node { name: "sum" op: "Sum" input: "x" input: "axis" attr { key: "T" value { type: DT_FLOAT } }
         attr { key: "Tidx" value { type: DT_INT32 } } attr { key: "keep_dims" value { b: true } } }
  node { name: "out" op: "Relu" input: "sum" input: "^x" attr { key: "T" value { type: DT_FLOAT } } }
)";

constexpr char kSmallModel[] = R"(
  ir_version: 8 opset_import { version: 17 }
  graph {
    name: "g"
    node { op_type: "Gemm" input: "x" input: "w" input: "b" output: "y" attribute { name: "transB" i: 1 type: INT } }
    node { op_type: "Softmax" input: "y" output: "z" attribute { name: "axis" i: -1 type: INT } }
    initializer { name: "w" data_type: 1 dims: 2 dims: 3 float_data: [1, 2, 3, 4, 5, 6] }
    initializer { name: "b" data_type: 1 dims: 2 float_data: [0, 1] }
    input { name: "x" type { tensor_type { elem_type: 1 shape { dim { dim_param: "n" } dim { dim_value: 3 } } } } }
    output { name: "z" type { tensor_type { elem_type: 1 shape { dim { dim_param: "n" } dim { dim_value: 2 } } } } }
  }
)";

// What a stranger's graph may cost here is what a search can afford.
GraphImport SmallLimits() {
  GraphImport options;
  options.limits.nodes = 2'000;
  options.limits.expanded_nodes = 5'000;
  options.limits.filled_bytes = size_t{1} << 22;
  return options;
}

const Registered graph{{"graph_def",
                        [](std::string_view bytes) {
                          const auto read = ParseGraph(bytes, SmallLimits());
                          if (!read.ok()) return false;
                          // What was read is written and read again as the same.
                          const std::string canonical = SerializeGraph(*read);
                          const auto again = ParseGraph(canonical, SmallLimits());
                          if (!again.ok() || SerializeGraph(*again) != canonical) std::abort();
                          return true;
                        },
                        [] {
                          std::vector<std::string> seeds = {SerializeGraph(*ParseGraphText(kSmallGraph))};
                          for (const char* preset : {"logistic_regression", "char_lstm"}) {
                            seeds.push_back(SerializeGraph(Preset(preset)->graph));
                          }
                          return seeds;
                        },
                        MessageFrom(0)}};

const Registered text{{"graph_text", [](std::string_view bytes) { return ParseGraphText(bytes, SmallLimits()).ok(); },
                       [] { return std::vector<std::string>{kSmallGraph}; }}};

const Registered tensor{{"tensor_proto",
                         [](std::string_view bytes) {
                           const auto read = testing::ParseTensor(bytes);
                           return read.ok() && testing::ParseTensor(testing::SerializeTensor(*read)).ok();
                         },
                         [] {
                           Tensor made(DType::kFloat32, Shape{2, 2});
                           for (float& value : made.flat<float>()) value = 0.5f;
                           return std::vector{testing::SerializeTensor(made)};
                         },
                         MessageFrom(0)}};

const Registered onnx_model{{"onnx",
                             [](std::string_view bytes) {
                               onnx::ImportOptions options;
                               options.limits.nodes = 2'000;
                               onnx::SummarizeOnnx(bytes).status().IgnoreError();
                               return onnx::ImportOnnx(bytes, options).ok();
                             },
                             [] {
                               onnx::proto::ModelProto model;
                               google::protobuf::TextFormat::ParseFromString(kSmallModel, &model);
                               return std::vector{model.SerializeAsString()};
                             },
                             MessageFrom(0)}};

const Registered slice{{"slice",
                        [](std::string_view bytes) {
                          static const Tensor tensor(DType::kInt32, Shape{5, 4, 3});
                          return SliceOf(tensor.view(), bytes).ok();
                        },
                        [] {
                          return std::vector<std::string>{"[0, 2:8:2, ...]", "[..., -1, ::-1]", "[]", "[3]"};
                        }}};

}  // namespace
}  // namespace rivulet::fuzz
