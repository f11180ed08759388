#include "engine/input/source_pipeline.h"

namespace rivulet {
namespace {

class RecordSource : public ElementSource {
 public:
  explicit RecordSource(std::vector<std::shared_ptr<const Dataset>> files) : files_(std::move(files)) {
    for (const auto& file : files_) ends_.push_back(size() + file->size());
  }
  int64_t size() const { return ends_.empty() ? 0 : ends_.back(); }
  StatusOr<std::vector<Component>> Read(int64_t index) const override {
    const auto file = static_cast<size_t>(std::upper_bound(ends_.begin(), ends_.end(), index) - ends_.begin());
    Bytes record{{}, files_[file], index - (file == 0 ? 0 : ends_[file - 1])};
    RIVULET_RETURN_IF_ERROR(record.source->Read(record.index, record.value));
    return std::vector<Component>{Component::Strings(Shape{}, {std::move(record)})};
  }

 private:
  const std::vector<std::shared_ptr<const Dataset>> files_;
  std::vector<int64_t> ends_;
};

class SourcePipeline : public Pipeline {
 public:
  SourcePipeline(std::string where, std::vector<TensorSpec> specs, std::shared_ptr<const ElementSource> source,
                 int64_t size)
      : Pipeline(std::move(where), std::move(specs)), source_(std::move(source)), size_(size) {}
  StatusOr<std::unique_ptr<PipelineIterator>> MakeIterator(const IteratorContext& context) const override {
    return std::make_unique<Iterator>(*this, context);
  }

 private:
  class Iterator : public IteratorOf<SourcePipeline> {
   public:
    Iterator(const SourcePipeline& pipeline, const IteratorContext& context) : IteratorOf(pipeline, context) {}

   private:
    StatusOr<bool> DoNext(const CancellationToken&, Element& element) override {
      if (next_ >= pipeline().size_) return false;
      element = Element(pipeline().source_, next_++);
      return true;
    }
    int64_t next_ = 0;
  };
  const std::shared_ptr<const ElementSource> source_;
  const int64_t size_;
};

}  // namespace

std::shared_ptr<Pipeline> RecordsOf(std::string where, std::vector<std::shared_ptr<const Dataset>> files) {
  auto source = std::make_shared<RecordSource>(std::move(files));
  const int64_t size = source->size();
  return ElementsOf(std::move(where), {{DType::kString, Shape{}}}, std::move(source), size);
}

std::shared_ptr<Pipeline> ElementsOf(std::string where, std::vector<TensorSpec> specs,
                                     std::shared_ptr<const ElementSource> source, int64_t size) {
  return std::make_shared<SourcePipeline>(std::move(where), std::move(specs), std::move(source), size);
}

}  // namespace rivulet
