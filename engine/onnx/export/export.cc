#include "engine/onnx/export/export.h"

#include <algorithm>
#include <set>

#include "engine/base/file_system.h"
#include "engine/io/atomic_file.h"
#include "engine/onnx/export/batch_shapes.h"
#include "engine/onnx/export/graph_exporter.h"
#include "engine/onnx/import.h"

namespace rivulet::onnx {
namespace {

// Protocol buffers are at most 2^31 - 1 bytes long; the graph itself needs some of them.
constexpr uint64_t kLargestMessage = (uint64_t{1} << 31) - 1;
constexpr uint64_t kMostWeights = kLargestMessage - (uint64_t{1} << 26);

Status Describe(const Value& name, const Exporter::Described& described, const BatchShapes& shapes,
                proto::ValueInfoProto& info) {
  info.set_name(name);
  auto& type = *info.mutable_type()->mutable_tensor_type();
  RIVULET_ASSIGN_OR_RETURN(const int number, OnnxFromDType(described.tensor.dtype()));
  type.set_elem_type(number);
  std::vector<SymbolicDim> dims = shapes.Of(described.tensor);
  if (dims.empty() && !(described.tensor.shape().known_rank() && described.tensor.shape().rank() == 0))
    return absl::OkStatus();
  if (described.channels_first) std::rotate(dims.begin() + 1, dims.end() - 1, dims.end());
  auto& shape = *type.mutable_shape();
  for (const SymbolicDim& dim : dims) {
    auto& entry = *shape.add_dim();
    if (dim.size != kUnknownDim) {
      entry.set_dim_value(dim.size);
    } else if (!dim.symbol.empty()) {
      entry.set_dim_param(dim.symbol);
    }
  }
  return absl::OkStatus();
}

uint64_t BytesOf(const std::map<std::string, Tensor>& weights) {
  uint64_t bytes = 0;
  for (const auto& [name, tensor] : weights) bytes += tensor.bytes();
  return bytes;
}

std::string FileName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// As WriteFileAtomically, without holding the whole.
Status WriteData(FileSystem& files, const std::string& path, const std::vector<ExternalPiece>& data) {
  RIVULET_ASSIGN_OR_RETURN(const auto file, AtomicFile::Create(files, path));
  for (const ExternalPiece& piece : data) {
    RIVULET_RETURN_IF_ERROR(file->Append(std::string(piece.offset - file->size(), '\0')));
    RIVULET_RETURN_IF_ERROR(file->Append(std::span(piece.value.data(), piece.value.bytes())));
  }
  return file->Commit();
}

}  // namespace

StatusOr<OnnxFile> ExportOnnx(const Graph& graph, const ExportOptions& options) {
  Exporter exporter(graph, options);
  RIVULET_RETURN_IF_ERROR(exporter.Run());
  ModelWriter& writer = exporter.writer();
  if (!options.external_data && writer.initializer_bytes() > kMostWeights)
    return ResourceExhausted("the weights have {} bytes, more than the 2 GB of one ONNX file; write external data",
                             writer.initializer_bytes());
  if (options.external_data && options.data_file.empty()) return InvalidArgument("external data need a file name");
  OnnxFile file;
  file.parameters = writer.parameters();
  proto::ModelProto model;
  model.set_ir_version(kExportIrVersion);
  model.set_producer_name("rivulet");
  if (!options.doc.empty()) model.set_doc_string(options.doc);
  auto& opset = *model.add_opset_import();
  opset.set_domain("");
  opset.set_version(kExportOpset);
  for (const auto& [key, value] : options.metadata) {
    auto& pair = *model.add_metadata_props();
    pair.set_key(key);
    pair.set_value(value);
  }
  RIVULET_ASSIGN_OR_RETURN(*model.mutable_graph(),
                           writer.Finish(options.data_file, options.external_data ? &file.data : nullptr));
  proto::GraphProto& out = *model.mutable_graph();
  out.set_name(options.graph_name);

  const BatchShapes& shapes = exporter.shapes();
  std::set<Value> made;
  std::set<std::string> ops;
  for (const proto::NodeProto& node : out.node()) {
    made.insert(node.output().begin(), node.output().end());
    ops.insert(node.op_type());
  }
  for (const Node* node : exporter.placeholders()) {
    RIVULET_RETURN_IF_ERROR(Describe(node->name(), {const_cast<Node*>(node)->output()}, shapes, *out.add_input()));
    file.inputs.push_back(node->name());
  }
  for (size_t i = 0; i < options.outputs.size(); ++i) {
    RIVULET_RETURN_IF_ERROR(Describe(options.outputs[i], {exporter.outputs()[i]}, shapes, *out.add_output()));
    file.outputs.push_back(options.outputs[i]);
    made.erase(options.outputs[i]);
  }
  for (const auto& [value, described] : exporter.described())
    if (made.contains(value)) RIVULET_RETURN_IF_ERROR(Describe(value, described, shapes, *out.add_value_info()));

  file.nodes = out.node_size();
  file.ops.assign(ops.begin(), ops.end());
  if (model.ByteSizeLong() > kLargestMessage)
    return ResourceExhausted("the model has {} bytes, more than the 2 GB of one ONNX file; write external data",
                             model.ByteSizeLong());
  file.model = model.SerializeAsString();
  return file;
}

namespace {

// Errors that would make the file unusable are found before it is written.
Status CheckLoads(const OnnxFile& file, const std::string& path) {
  ImportOptions options;
  options.folder = FolderOf(path);
  const StatusOr<OnnxModel> read = ImportOnnx(file.model, options);
  if (!read.ok())
    return FailedPrecondition("the model would be written but could not be read again, so nothing was written: {}",
                              Message(read.status()));
  return absl::OkStatus();
}

}  // namespace

StatusOr<OnnxFile> WriteOnnx(const Graph& graph, ExportOptions options, const std::string& path) {
  FileSystem& files = FileSystem::Default();
  options.external_data = options.external_data || BytesOf(options.weights) > kMostWeights;
  if (options.external_data) options.data_file = FileName(path) + ".data";
  RIVULET_ASSIGN_OR_RETURN(OnnxFile file, ExportOnnx(graph, options));
  if (options.external_data) RIVULET_RETURN_IF_ERROR(WriteData(files, path + ".data", file.data));
  if (const Status loads = CheckLoads(file, path); !loads.ok()) {
    if (options.external_data) (void)files.Remove(path + ".data");
    return loads;
  }
  RIVULET_RETURN_IF_ERROR(WriteFileAtomically(files, path, file.model));
  return file;
}

}  // namespace rivulet::onnx
