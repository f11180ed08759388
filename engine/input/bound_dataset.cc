// Dataset ops that name the data they read: BoundDataset and similar. The BoundSources of the graph's user open the
// name.
#include "engine/input/pipeline_registry.h"
#include "engine/input/source_pipeline.h"

namespace rivulet {
namespace {

StatusOr<const BoundSources*> SourcesOf(const PipelineArguments& arguments) {
  if (arguments.environment->bound == nullptr)
    return NotFound("{}: no data set is bound to '{}' here", arguments.where(),
                    arguments.node.attr<std::string>("name"));
  return arguments.environment->bound.get();
}

// `file` < 0: all files.
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
}  // namespace rivulet
