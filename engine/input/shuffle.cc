// ShuffleDataset: elements in random order, drawn from a buffer of the next `buffer_size` elements.
//
// With seeds the order is TensorFlow's, draw by draw. Without (0, 0) it comes from the pipeline's random stream: for a
// client this is its own stream, so that a buffer with all of its data gives the order of the built-in epochs.
#include "engine/base/draws.h"
#include "engine/base/mutex.h"
#include "engine/input/pipeline_registry.h"

namespace rivulet {
namespace {

// TensorFlow's PhiloxRandom(seed, seed2), one word per call.
class SeededWords {
 public:
  SeededWords(uint64_t seed, uint64_t seed2)
      : key_{{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)}},
        counter_{0, 0, static_cast<uint32_t>(seed2), static_cast<uint32_t>(seed2 >> 32)} {}
  uint32_t Next() {
    if (used_ == 4) {
      block_ = Philox4x32(key_, counter_);
      for (uint32_t& word : counter_)
        if (++word != 0) break;
      used_ = 0;
    }
    return block_[used_++];
  }

 private:
  PhiloxKey key_;
  PhiloxBlock counter_, block_{};
  size_t used_ = 4;
};

class ShufflePipeline : public Pipeline {
 public:
  struct Settings {
    int64_t buffer_size;
    uint64_t seed, seed2;
    bool reshuffle_each_iteration;
    StreamKey stream;
  };
  ShufflePipeline(std::string where, std::vector<TensorSpec> specs, std::shared_ptr<const Pipeline> input,
                  const Settings& settings)
      : Pipeline(std::move(where), std::move(specs)),
        input_(std::move(input)),
        settings_(settings),
        seeds_(settings.seed, settings.seed2) {}

  StatusOr<std::unique_ptr<PipelineIterator>> MakeIterator(const IteratorContext& context) const override {
    RIVULET_ASSIGN_OR_RETURN(auto input, input_->MakeIterator(context));
    uint64_t seed = settings_.seed, seed2 = settings_.seed2;
    uint32_t iteration = 0;
    // The pipeline stores its iterations' seeds: each epoch of a Repeat makes an iterator, and gets the next pair.
    if (settings_.reshuffle_each_iteration) {
      MutexLock lock(mutex_);
      iteration = iterations_++;
      seed = seeds_.Next();
      seed2 = seeds_.Next();
    }
    if (settings_.seed == 0 && settings_.seed2 == 0)
      return std::make_unique<StreamIterator>(*this, context, std::move(input), iteration);
    return std::make_unique<SeededIterator>(*this, context, std::move(input), seed, seed2);
  }

 private:
  // A full buffer returns a random element for each new one; at the end the rest is returned in the order of one
  // permutation. If the buffer holds all data, that permutation is the only draw, and it equals that of a client's
  // built-in epochs: a plan with explicit shuffling gives the same bits.
  class StreamIterator : public IteratorOf<ShufflePipeline> {
   public:
    StreamIterator(const ShufflePipeline& pipeline, const IteratorContext& context,
                   std::unique_ptr<PipelineIterator> input, uint32_t iteration)
        : IteratorOf(pipeline, context),
          input_(std::move(input)),
          draws_(pipeline.settings_.stream, iteration & 0xFFFFFF),
          held_(context.budget) {}

   private:
    StatusOr<bool> DoNext(const CancellationToken& cancel, Element& element) override {
      while (!ended_) {
        Element next;
        RIVULET_ASSIGN_OR_RETURN(const bool more, input_->Next(cancel, next));
        if (!more) {
          // The rest is returned in the order of one permutation.
          ended_ = true;
          order_ = Permutation(draws_, static_cast<uint32_t>(buffer_.size()));
          break;
        }
        RIVULET_RETURN_IF_ERROR(held_.Add(next.bytes(), where()));
        if (static_cast<int64_t>(buffer_.size()) < pipeline().settings_.buffer_size) {
          if (buffer_.size() == UINT32_MAX) return ResourceExhausted("{}: the buffer is full", where());
          buffer_.push_back(std::move(next));
          continue;
        }
        Element& drawn = buffer_[draws_.Below(buffer_.size())];
        element = std::exchange(drawn, std::move(next));
        held_.Drop(element.bytes());
        return true;
      }
      if (next_ == order_.size()) return false;
      element = std::move(buffer_[order_[next_++]]);
      held_.Drop(element.bytes());
      return true;
    }
    const std::unique_ptr<PipelineIterator> input_;
    Draws draws_;
    HeldBytes held_;
    std::vector<Element> buffer_;
    std::vector<uint32_t> order_;
    size_t next_ = 0;
    bool ended_ = false;
  };

  // As in TensorFlow: the buffer is a ring from start_ to end_; a drawn element is swapped with the first.
  class SeededIterator : public IteratorOf<ShufflePipeline> {
   public:
    SeededIterator(const ShufflePipeline& pipeline, const IteratorContext& context,
                   std::unique_ptr<PipelineIterator> input, uint64_t seed, uint64_t seed2)
        : IteratorOf(pipeline, context), input_(std::move(input)), words_(seed, seed2), held_(context.budget) {}

   private:
    StatusOr<bool> DoNext(const CancellationToken& cancel, Element& element) override {
      const auto capacity = static_cast<uint64_t>(pipeline().settings_.buffer_size);
      while (!ended_ && end_ - start_ < capacity) {
        Element next;
        RIVULET_ASSIGN_OR_RETURN(const bool more, input_->Next(cancel, next));
        if (!more) {
          ended_ = true;
          break;
        }
        RIVULET_RETURN_IF_ERROR(held_.Add(next.bytes(), where()));
        if (buffer_.size() < capacity) {
          buffer_.push_back(std::move(next));  // the ring is not full yet
        } else {
          buffer_[end_ % capacity] = std::move(next);
        }
        ++end_;
      }
      if (start_ == end_) return false;
      const uint64_t drawn = (start_ + words_.Next() % (end_ - start_)) % capacity;
      element = std::move(buffer_[drawn]);
      held_.Drop(element.bytes());
      if (drawn != start_ % capacity) buffer_[drawn] = std::move(buffer_[start_ % capacity]);
      ++start_;
      return true;
    }
    const std::unique_ptr<PipelineIterator> input_;
    SeededWords words_;
    HeldBytes held_;
    std::vector<Element> buffer_;
    uint64_t start_ = 0, end_ = 0;
    bool ended_ = false;
  };

  const std::shared_ptr<const Pipeline> input_;
  const Settings settings_;
  mutable Mutex mutex_;
  mutable SeededWords seeds_ GUARDED_BY(mutex_);
  mutable uint32_t iterations_ GUARDED_BY(mutex_) = 0;
};

StatusOr<std::shared_ptr<Pipeline>> MakeShuffle(PipelineArguments& arguments) {
  RIVULET_ASSIGN_OR_RETURN(int64_t buffer_size, arguments.Integer(0, "buffer_size"));
  RIVULET_ASSIGN_OR_RETURN(const int64_t seed, arguments.Integer(1, "seed"));
  RIVULET_ASSIGN_OR_RETURN(const int64_t seed2, arguments.Integer(2, "seed2"));
  if (buffer_size == -1) buffer_size = INT64_MAX;  // all elements
  if (buffer_size <= 0)
    return InvalidArgument("{}: buffer_size must be greater than zero, or -1 for everything, not {}", arguments.where(),
                           buffer_size);
  RIVULET_ASSIGN_OR_RETURN(auto specs, arguments.Check(arguments.datasets[0]->specs()));
  return std::make_shared<ShufflePipeline>(
      arguments.where(), std::move(specs), arguments.datasets[0],
      ShufflePipeline::Settings{buffer_size, static_cast<uint64_t>(seed), static_cast<uint64_t>(seed2),
                                arguments.node.attr<bool>("reshuffle_each_iteration"), arguments.NextStream()});
}

RIVULET_DATASET_OP("ShuffleDataset", MakeShuffle);

}  // namespace
}  // namespace rivulet
