// Export of graphs as ONNX models: the nodes that the outputs need, with the weights as initializers. The inverse of
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

// The version of ONNX's operators for exported models, and the matching version of the file format (IR).
inline constexpr int64_t kExportOpset = 18;
inline constexpr int64_t kExportIrVersion = 8;

struct ExportOptions {
  // Tensors of the graph, in the order of the model's outputs.
  std::vector<std::string> outputs;
  // By variable name. Every variable that the outputs need must have a weight of its dtype and shape.
  std::map<std::string, Tensor> weights;
  std::string graph_name = "model";
  std::string doc;                              // description of the model
  std::map<std::string, std::string> metadata;  // metadata_props
  // Writes weights to a second file. Required if model and weights exceed 2 GB, the largest size of a message.
  bool external_data = false;
  std::string data_file;  // its file name without folder, as stored in the model
};

// One weight in the second file.
struct ExternalPiece {
  uint64_t offset = 0;
  Tensor value;
};

struct OnnxFile {
  std::string model;                 // a serialized ModelProto
  std::vector<ExternalPiece> data;   // by offset; empty unless external_data
  std::vector<std::string> inputs;   // names, in order
  std::vector<std::string> outputs;  // as ExportOptions::outputs
  std::vector<std::string> ops;      // operators used, without duplicates, sorted
  int nodes = 0;
  int64_t parameters = 0;  // elements of initializers
};

// Exports a graph. Placeholders become inputs; the batch (the first unknown size) becomes the symbolic size "N".
// UNIMPLEMENTED: an op that ONNX cannot express; the error names op, node and remedy. NOT_FOUND: a missing output or
// weight. INVALID_ARGUMENT: a weight of wrong dtype or shape. RESOURCE_EXHAUSTED: over 2 GB without external_data.
StatusOr<OnnxFile> ExportOnnx(const Graph& graph, const ExportOptions& options);

// Writes `path`, and also `path` + ".data" if the weights do not fit into one message or `external_data` is set. Each
// file is written atomically, the data first.
StatusOr<OnnxFile> WriteOnnx(const Graph& graph, ExportOptions options, const std::string& path);

}  // namespace rivulet::onnx
