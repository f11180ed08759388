#include "engine/input/bound_data.h"

namespace rivulet {
namespace {

constexpr std::string_view kContainer = "bound data";

class BoundFiles : public Resource {
 public:
  explicit BoundFiles(std::vector<std::shared_ptr<const Dataset>> files) : files(std::move(files)) {}
  std::string_view type() const override { return "BoundDataset"; }
  const std::vector<std::shared_ptr<const Dataset>> files;
};

class SessionSources : public BoundSources {
 public:
  explicit SessionSources(const ResourceManager& resources) : resources_(resources) {}
  StatusOr<std::shared_ptr<Pipeline>> Open(std::string_view name, int64_t file, std::string where) const override {
    RIVULET_ASSIGN_OR_RETURN(const auto bound, Find(name, where));
    if (file < 0) return RecordsOf(std::move(where), bound->files);
    if (file >= static_cast<int64_t>(bound->files.size()))
      return OutOfRange("{}: file {} of the data set '{}', which has {}", where, file, name, bound->files.size());
    return RecordsOf(std::move(where), {bound->files[static_cast<size_t>(file)]});
  }
  StatusOr<int64_t> Files(std::string_view name) const override {
    RIVULET_ASSIGN_OR_RETURN(const auto bound, Find(name, "the number of files"));
    return static_cast<int64_t>(bound->files.size());
  }

 private:
  StatusOr<std::shared_ptr<BoundFiles>> Find(std::string_view name, std::string_view where) const {
    const auto found = resources_.Find(kContainer, "BoundDataset", name);
    if (!found.ok())
      return NotFound("{}: no data set is bound to '{}'; bind its files with BindData ({})", where, name,
                      Message(found.status()));
    return std::static_pointer_cast<BoundFiles>(*found);
  }
  const ResourceManager& resources_;
};

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

StatusOr<const BoundSources*> SourcesOf(const PipelineArguments& arguments) {
  if (arguments.environment->bound == nullptr)
    return NotFound("{}: no data set is bound to '{}' here", arguments.where(),
                    arguments.node.attr<std::string>("name"));
  return arguments.environment->bound.get();
}

// `file` < 0: all.
StatusOr<std::shared_ptr<Pipeline>> Open(PipelineArguments& arguments, int64_t file) {
  RIVULET_ASSIGN_OR_RETURN(const BoundSources* sources, SourcesOf(arguments));
  RIVULET_ASSIGN_OR_RETURN(auto pipeline,
                           sources->Open(arguments.node.attr<std::string>("name"), file, arguments.where()));
  RIVULET_RETURN_IF_ERROR(arguments.Check(pipeline->specs()).status());
  return pipeline;
}

StatusOr<std::shared_ptr<Pipeline>> MakeBound(PipelineArguments& arguments) { return Open(arguments, -1); }

StatusOr<std::shared_ptr<Pipeline>> MakeBoundFile(PipelineArguments& arguments) {
  RIVULET_ASSIGN_OR_RETURN(const int64_t file, arguments.Integer(0, "file"));
  if (file < 0) return OutOfRange("{}: file {}; files are numbered from 0", arguments.where(), file);
  return Open(arguments, file);
}

class NumberSource : public ElementSource {
 public:
  StatusOr<std::vector<Component>> Read(int64_t index) const override {
    return std::vector<Component>{Tensor::Scalar<int64_t>(index)};
  }
};

StatusOr<std::shared_ptr<Pipeline>> MakeBoundFiles(PipelineArguments& arguments) {
  RIVULET_ASSIGN_OR_RETURN(const BoundSources* sources, SourcesOf(arguments));
  StatusOr<int64_t> files = sources->Files(arguments.node.attr<std::string>("name"));
  if (!files.ok()) return Annotate(files.status(), arguments.where());
  RIVULET_ASSIGN_OR_RETURN(auto specs, arguments.Check({{DType::kInt64, Shape{}}}));
  return ElementsOf(arguments.where(), std::move(specs), std::make_shared<NumberSource>(), *files);
}

RIVULET_DATASET_OP("BoundDataset", MakeBound);
RIVULET_DATASET_OP("BoundFileDataset", MakeBoundFile);
RIVULET_DATASET_OP("BoundFilesDataset", MakeBoundFiles);

}  // namespace

Status BindData(ResourceManager& resources, std::string_view name, const std::vector<std::string>& files) {
  if (files.empty()) return InvalidArgument("the data set '{}' is bound to no file", name);
  std::vector<std::shared_ptr<const Dataset>> opened;
  for (const std::string& file : files) {
    RIVULET_ASSIGN_OR_RETURN(opened.emplace_back(), Dataset::Open({file}));
  }
  bool made = false;
  RIVULET_RETURN_IF_ERROR(resources
                              .FindOrMake(kContainer, "BoundDataset", name,
                                          [&]() -> StatusOr<std::shared_ptr<Resource>> {
                                            made = true;
                                            return std::make_shared<BoundFiles>(std::move(opened));
                                          })
                              .status());
  return made ? absl::OkStatus() : Status(AlreadyExists("a data set is bound to '{}' already", name));
}

std::shared_ptr<const BoundSources> BoundIn(const ResourceManager& resources) {
  return std::make_shared<SessionSources>(resources);
}

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
