// InterleaveDataset: a function makes a data set from each element, and elements of `cycle_length` of these are taken
// in turn, `block_length` at a time. FlatMapDataset: one data set after another.
#include "engine/graph/function.h"
#include "engine/input/build_pipeline.h"

namespace rivulet {
namespace {

constexpr int64_t kMostOpen = 4096;  // per interleave
constexpr int kMostNested = 16;      // nested data sets

class InterleavePipeline : public Pipeline {
 public:
  struct Cycle {
    int64_t length, block;
  };
  InterleavePipeline(std::string where, std::vector<TensorSpec> specs, std::shared_ptr<const Pipeline> input,
                     std::shared_ptr<const Function> function, std::vector<Tensor> captured, Cycle cycle,
                     std::shared_ptr<const PipelineEnvironment> environment)
      : Pipeline(std::move(where), std::move(specs)),
        input_(std::move(input)),
        function_(std::move(function)),
        captured_(std::move(captured)),
        cycle_(cycle),
        environment_(std::move(environment)) {}

  StatusOr<std::unique_ptr<PipelineIterator>> MakeIterator(const IteratorContext& context) const override {
    if (context.nested >= kMostNested)
      return ResourceExhausted("{}: data sets are nested more than {} deep", where(), kMostNested);
    RIVULET_ASSIGN_OR_RETURN(auto input, input_->MakeIterator(context));
    return std::make_unique<Iterator>(*this, context, std::move(input));
  }

 private:
  class Iterator : public IteratorOf<InterleavePipeline> {
   public:
    Iterator(const InterleavePipeline& pipeline, const IteratorContext& context,
             std::unique_ptr<PipelineIterator> input)
        : IteratorOf(pipeline, context), input_(std::move(input)), open_(static_cast<size_t>(pipeline.cycle_.length)) {}

   private:
    StatusOr<bool> DoNext(const CancellationToken& cancel, Element& element) override {
      while (!ended_ || num_open_ > 0) {
        std::unique_ptr<PipelineIterator>& current = open_[turn_];
        if (current != nullptr) {
          RIVULET_ASSIGN_OR_RETURN(const bool more, current->Next(cancel, element));
          if (more) {
            if (++taken_ == pipeline().cycle_.block) NextTurn();
            return true;
          }
          current = nullptr;
          --num_open_;
          NextTurn();
        } else if (!ended_) {
          RIVULET_ASSIGN_OR_RETURN(current, Open(cancel));
          if (current != nullptr) ++num_open_;
        } else {
          NextTurn();
        }
      }
      return false;
    }

    // A finished data set leaves its turn empty until the next element opens one there, as in TensorFlow; the order of
    // elements depends on it.
    void NextTurn() {
      taken_ = 0;
      turn_ = (turn_ + 1) % open_.size();
    }

    // Returns null at the end of the input. For each element the
    // function's body is built into a pipeline, with the element's
    // values as constants; programs_ shares compiled programs.
    StatusOr<std::unique_ptr<PipelineIterator>> Open(const CancellationToken& cancel) {
      Element next;
      RIVULET_ASSIGN_OR_RETURN(const bool more, input_->Next(cancel, next));
      if (!more) {
        ended_ = true;
        return std::unique_ptr<PipelineIterator>();
      }
      RIVULET_ASSIGN_OR_RETURN(const auto components, next.Components());
      std::vector<Component> arguments(components.begin(), components.end());
      for (const Tensor& captured : pipeline().captured_) arguments.emplace_back(captured);
      const Function& function = *pipeline().function_;
      // Each data set draws separate random numbers.
      auto environment = std::make_shared<PipelineEnvironment>(*pipeline().environment_);
      environment->rng.key.words[0] ^= ++opened_ * 0x85EBCA6Bu;
      StatusOr<std::shared_ptr<const Pipeline>> inner = BuildPipeline(
          function.body, function.results[0], environment, arguments, &pipeline().programs_, context().budget.get());
      if (!inner.ok()) return Annotate(inner.status(), where());
      bool fits = (*inner)->specs().size() == pipeline().specs().size();
      for (size_t i = 0; fits && i < pipeline().specs().size(); ++i) {
        const TensorSpec &made = (*inner)->specs()[i], &wanted = pipeline().specs()[i];
        fits = made.dtype == wanted.dtype && Shape::Compatible(made.shape, wanted.shape);
      }
      if (!fits)
        return InvalidArgument("{}: the function makes elements {}, but output_types and output_shapes say {}", where(),
                               Describe((*inner)->specs()), Describe(pipeline().specs()));
      IteratorContext inner_context = context();
      ++inner_context.nested;
      return (*inner)->MakeIterator(inner_context);
    }

    const std::unique_ptr<PipelineIterator> input_;
    std::vector<std::unique_ptr<PipelineIterator>> open_;
    size_t turn_ = 0, num_open_ = 0;
    int64_t taken_ = 0;
    uint32_t opened_ = 0;
    bool ended_ = false;
  };

  const std::shared_ptr<const Pipeline> input_;
  const std::shared_ptr<const Function> function_;
  const std::vector<Tensor> captured_;
  const Cycle cycle_;
  const std::shared_ptr<const PipelineEnvironment> environment_;
  mutable TensorPrograms programs_;
};

StatusOr<std::shared_ptr<Pipeline>> MakeStage(PipelineArguments& arguments, InterleavePipeline::Cycle cycle) {
  RIVULET_ASSIGN_OR_RETURN(auto function, arguments.FunctionOf("f"));
  if (function->results.size() != 1 || function->results[0].dtype() != DType::kVariant)
    return InvalidArgument("{}: the function '{}' must make one data set", arguments.where(), function->name);
  const size_t given = arguments.datasets[0]->specs().size() + arguments.tensors.size();
  if (given != function->arguments.size())
    return InvalidArgument("{}: the function '{}' takes {} arguments, and is given {}", arguments.where(),
                           function->name, function->arguments.size(), given);
  RIVULET_ASSIGN_OR_RETURN(auto specs, arguments.OutputSpecs());
  return std::make_shared<InterleavePipeline>(arguments.where(), std::move(specs), arguments.datasets[0],
                                              std::move(function), std::move(arguments.tensors), cycle,
                                              arguments.environment);
}

StatusOr<std::shared_ptr<Pipeline>> MakeInterleave(PipelineArguments& arguments) {
  const size_t count = arguments.tensors.size();
  RIVULET_ASSIGN_OR_RETURN(const int64_t length, arguments.Integer(count - 2, "cycle_length"));
  RIVULET_ASSIGN_OR_RETURN(const int64_t block, arguments.Integer(count - 1, "block_length"));
  if (length <= 0 || length > kMostOpen)
    return InvalidArgument("{}: cycle_length must be greater than zero and at most {}, not {}", arguments.where(),
                           kMostOpen, length);
  if (block <= 0)
    return InvalidArgument("{}: block_length must be greater than zero, not {}", arguments.where(), block);
  arguments.tensors.resize(count - 2);
  return MakeStage(arguments, {length, block});
}

StatusOr<std::shared_ptr<Pipeline>> MakeFlatMap(PipelineArguments& arguments) { return MakeStage(arguments, {1, 1}); }

RIVULET_DATASET_OP("InterleaveDataset", MakeInterleave);
RIVULET_DATASET_OP("FlatMapDataset", MakeFlatMap);

}  // namespace
}  // namespace rivulet
