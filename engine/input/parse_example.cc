// ParseExampleDatasetV2: batches of serialized tf.train.Example as dense tensors, one for each key, in order of the
// keys.
#include <algorithm>
#include <cstring>
#include <optional>

#include "engine/data/example.h"
#include "engine/input/pipeline_registry.h"

namespace rivulet {
namespace {

struct DenseFeature {
  std::string key;
  DType dtype;           // float, int64, string; uint8: the bytes of one string
  Shape shape;           // of one example
  Tensor default_value;  // if has_default
  bool has_default = false;
};

class ParsePipeline : public Pipeline {
 public:
  ParsePipeline(std::string where, std::vector<TensorSpec> specs, std::shared_ptr<const Pipeline> input,
                std::vector<DenseFeature> features)
      : Pipeline(std::move(where), std::move(specs)), input_(std::move(input)), features_(std::move(features)) {}

  StatusOr<std::unique_ptr<PipelineIterator>> MakeIterator(const IteratorContext& context) const override {
    RIVULET_ASSIGN_OR_RETURN(auto input, input_->MakeIterator(context));
    return std::make_unique<Iterator>(*this, context, std::move(input));
  }

 private:
  class Iterator : public IteratorOf<ParsePipeline> {
   public:
    Iterator(const ParsePipeline& pipeline, const IteratorContext& context, std::unique_ptr<PipelineIterator> input)
        : IteratorOf(pipeline, context), input_(std::move(input)) {}

   private:
    StatusOr<bool> DoNext(const CancellationToken& cancel, Element& element) override {
      Element next;
      RIVULET_ASSIGN_OR_RETURN(const bool more, input_->Next(cancel, next));
      if (!more) return false;
      RIVULET_ASSIGN_OR_RETURN(const auto components, next.Components());
      const Component& records = components[0];
      if (records.shape().rank() != 1)
        return InvalidArgument("{}: takes vectors of serialized examples, not shape {}; batch the records before",
                               where(), records.shape().ToString());
      std::vector<Component> parsed;
      for (const DenseFeature& feature : pipeline().features_) {
        RIVULET_ASSIGN_OR_RETURN(parsed.emplace_back(), Parse(feature, records.strings()));
      }
      element = Element(std::move(parsed));
      return true;
    }

    StatusOr<Component> Parse(const DenseFeature& feature, std::span<const Bytes> records) const {
      std::vector<int64_t> dims = {static_cast<int64_t>(records.size())};
      dims.insert(dims.end(), feature.shape.dims().begin(), feature.shape.dims().end());
      const int64_t count = feature.shape.elements();
      if (feature.dtype == DType::kString) {
        std::vector<Bytes> strings;
        for (const Bytes& record : records) {
          RIVULET_ASSIGN_OR_RETURN(const auto view, Find(feature, record, FeatureKind::kBytes, count));
          if (!view.has_value()) continue;
          view->ForEachBytes([&](std::string_view value) {
            strings.push_back({std::string(value), record.source, record.index});
          });
        }
        return Component::Strings(Shape(dims), std::move(strings));
      }
      RIVULET_ASSIGN_OR_RETURN(Tensor batch, Tensor::Create(feature.dtype, Shape(dims)));
      const size_t row_bytes = static_cast<size_t>(count) * SizeOf(feature.dtype);
      for (size_t row = 0; row < records.size(); ++row) {
        std::byte* const out = batch.data() + row * row_bytes;
        const FeatureKind kind = feature.dtype == DType::kFloat32 ? FeatureKind::kFloat
                                 : feature.dtype == DType::kInt64 ? FeatureKind::kInt64
                                                                  : FeatureKind::kBytes;
        RIVULET_ASSIGN_OR_RETURN(const auto view,
                                 Find(feature, records[row], kind, kind == FeatureKind::kBytes ? 1 : count));
        if (!view.has_value()) {
          std::memcpy(out, feature.default_value.data(), row_bytes);
        } else if (kind == FeatureKind::kFloat) {
          view->CopyFloats({reinterpret_cast<float*>(out), static_cast<size_t>(count)});
        } else if (kind == FeatureKind::kInt64) {
          view->CopyInt64s({reinterpret_cast<int64_t*>(out), static_cast<size_t>(count)});
        } else {
          const std::string_view bytes = view->FirstBytes();
          if (bytes.size() != row_bytes)
            return InvalidArgument("{}: {}: Key: {}. {} bytes, but the output shape {} takes {}", where(),
                                   records[row].Where(), feature.key, bytes.size(), feature.shape.ToString(),
                                   row_bytes);
          if (row_bytes > 0) std::memcpy(out, bytes.data(), row_bytes);
        }
      }
      return Component(std::move(batch));
    }

    // The feature's list in one record, of `kind` with `count` values; nullopt if its default is used.
    StatusOr<std::optional<FeatureView>> Find(const DenseFeature& feature, const Bytes& record, FeatureKind kind,
                                              int64_t count) const {
      const auto features = ParseExample(record.value);
      if (!features.ok()) return Annotate(Annotate(features.status(), record.Where()), where());
      const auto found = std::lower_bound(features->begin(), features->end(), std::string_view(feature.key),
                                          [](const auto& entry, std::string_view key) { return entry.first < key; });
      const bool missing =
          found == features->end() || found->first != feature.key || found->second.kind() == FeatureKind::kNone;
      if (missing && feature.has_default) return std::optional<FeatureView>();
      if (missing)
        return InvalidArgument("{}: {}: Feature: {} (data type: {}) is required but could not be found.", where(),
                               record.Where(), feature.key, Name(feature.dtype));
      if (found->second.kind() != kind)
        return InvalidArgument("{}: {}: Key: {}. Data types don't match. Data type: {} but expected type: {}", where(),
                               record.Where(), feature.key, Name(found->second.kind()), Name(kind));
      if (found->second.count() != count)
        return InvalidArgument("{}: {}: Key: {}. Number of {} values != expected. Values size: {} but output shape: {}",
                               where(), record.Where(), feature.key, Name(kind), found->second.count(),
                               feature.shape.ToString());
      return std::optional<FeatureView>(found->second);
    }

    const std::unique_ptr<PipelineIterator> input_;
  };

  const std::shared_ptr<const Pipeline> input_;
  const std::vector<DenseFeature> features_;
};

StatusOr<std::shared_ptr<Pipeline>> MakeParseExample(PipelineArguments& arguments) {
  const Node& node = arguments.node;
  const std::string where = arguments.where();
  const auto& keys = node.attr<std::vector<std::string>>("dense_keys");
  const auto& types = node.attr<std::vector<DType>>("Tdense");
  const auto& shapes = node.attr<std::vector<Shape>>("dense_shapes");
  if (!node.attr<std::vector<std::string>>("sparse_keys").empty() ||
      !node.attr<std::vector<std::string>>("ragged_keys").empty())
    return Unimplemented("{}: sparse and ragged features are not parsed; dense ones of known shape are", where);
  if (keys.size() != types.size() || keys.size() != shapes.size() || keys.size() + 1 != arguments.tensors.size())
    return InvalidArgument("{}: {} dense keys, {} types, {} shapes and {} defaults", where, keys.size(), types.size(),
                           shapes.size(), arguments.tensors.size() - 1);
  const std::vector<TensorSpec>& input = arguments.datasets[0]->specs();
  if (input.size() != 1 || input[0].dtype != DType::kString)
    return InvalidArgument("{}: takes vectors of serialized examples, not {}", where, Describe(input));
  std::vector<DenseFeature> features;
  for (size_t i = 0; i < keys.size(); ++i) {
    const auto elements = shapes[i].CheckedElements();
    if (!elements.ok()) return Annotate(elements.status(), fmt::format("{}: feature '{}'", where, keys[i]));
    const Tensor& value = arguments.tensors[1 + i];
    DenseFeature feature{keys[i], types[i], shapes[i], value, value.elements() > 0};
    if (value.dtype() != types[i])
      return InvalidArgument("{}: the default of '{}' is {}, and the feature {}", where, keys[i], Name(value.dtype()),
                             Name(types[i]));
    if (feature.has_default && value.shape() != shapes[i])
      return InvalidArgument("{}: the default of '{}' has shape {}, and the feature {}", where, keys[i],
                             value.shape().ToString(), shapes[i].ToString());
    features.push_back(std::move(feature));
  }
  std::sort(features.begin(), features.end(), [](const auto& a, const auto& b) { return a.key < b.key; });
  std::vector<TensorSpec> computed;
  for (size_t i = 0; i < features.size(); ++i) {
    if (i > 0 && features[i].key == features[i - 1].key)
      return InvalidArgument("{}: the key '{}' is listed twice", where, features[i].key);
    std::vector<int64_t> dims = {kUnknownDim};
    dims.insert(dims.end(), features[i].shape.dims().begin(), features[i].shape.dims().end());
    computed.push_back({features[i].dtype, Shape(dims)});
  }
  RIVULET_ASSIGN_OR_RETURN(auto specs, arguments.Check(computed));
  return std::make_shared<ParsePipeline>(where, std::move(specs), arguments.datasets[0], std::move(features));
}

RIVULET_DATASET_OP("ParseExampleDatasetV2", MakeParseExample);

}  // namespace
}  // namespace rivulet
