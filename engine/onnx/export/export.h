// Export of graphs as ONNX models: the part that the outputs need, with the weights as initializers. The inverse of
// import.h: a variable becomes an initializer of its name, with filters in ONNX's layout; other constants become
// Constant nodes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/graph/graph.h"

namespace rivulet::onnx {

// The version of ONNX's operators that exported models are written for, and of the file format (IR) that goes with it.
inline constexpr int64_t kExportOpset = 18;
inline constexpr int64_t kExportIrVersion = 8;

struct ExportOptions {
  // Tensors of the graph, in the order in which the model gives them.
  std::vector<std::string> outputs;
  // By variable name; every variable that the outputs need has one of its dtype and shape.
  std::map<std::string, Tensor> weights;
  std::string graph_name = "model";
  std::string doc;                              // of the model
  std::map<std::string, std::string> metadata;  // metadata_props
  // Weights go into a second file. So they must where model and weights exceed 2 GB, the most that a message holds.
  bool external_data = false;
  std::string data_file;  // its plain name, as the model states it
};

// A piece of the second file.
struct ExternalPiece {
  uint64_t offset = 0;
  Tensor value;
};

struct OnnxFile {
  std::string model;                 // a serialized ModelProto
  std::vector<ExternalPiece> data;   // by offset; empty unless external_data
  std::vector<std::string> inputs;   // names, in order
  std::vector<std::string> outputs;  // as ExportOptions::outputs
  std::vector<std::string> ops;      // operators that it uses, each once, sorted
  int nodes = 0;
  int64_t parameters = 0;  // elements of initializers
};

// Placeholders become inputs, the batch (the first unknown size) the symbolic size "N". UNIMPLEMENTED: an op that has
// no form in ONNX; the error names op and node and what to do. NOT_FOUND: an output or a weight that is not there.
// INVALID_ARGUMENT: a weight of another dtype or shape. RESOURCE_EXHAUSTED: more than 2 GB without external_data.
StatusOr<OnnxFile> ExportOnnx(const Graph& graph, const ExportOptions& options);

// Writes `path`, and beside it `path` + ".data" where the weights do not fit into one message or `external_data` asks
// for it. Each file atomically, the data first.
StatusOr<OnnxFile> WriteOnnx(const Graph& graph, ExportOptions options, const std::string& path);

}  // namespace rivulet::onnx
