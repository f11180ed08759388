// [data]: records, how they are shared out, and records that are generated.
#include "federated/scenario/keys.h"

namespace rivulet::scenario {
namespace {

bool IsShards(const Scenario& s) { return s.data.partition.kind == "shards"; }
bool IsDirichlet(const Scenario& s) { return s.data.partition.kind == "dirichlet"; }
bool IsByKey(const Scenario& s) { return s.data.partition.kind == "by_key"; }
bool HasSynth(const Scenario& s) { return !s.data.synth.kind.empty(); }
Key&& ForSynth(Key&& key) { return std::move(key).When("data.synth.kind", HasSynth, "data.synth.kind is given"); }

}  // namespace

std::vector<Key> DataKeys() {
  return {
      Key("data.train", RIVULET_FIELD(data.train), "\"mnist/train.tfrecord\"",
          "TFRecord file of `tf.train.Example` that the clients of a simulation share out. A coordinator needs none: "
          "its "
          "clients have their data.")
          .Path()
          .Default("none; with `data.synth.kind` a file under `data/` beside the scenario"),
      Key("data.test", RIVULET_FIELD(data.test), "\"mnist/test.tfrecord\"",
          "TFRecord file for central evaluation. Empty: no central evaluation.")
          .Path()
          .Default("none; with `data.synth.kind` `test.tfrecord` beside `data.train`")
          .OfGraphs(),
      Key("data.image_feature", RIVULET_FIELD(data.image_feature), "\"pixels\"",
          "Feature with the input. Of images one byte a pixel, as many as the model's input has elements; the model "
          "sees pixel / 255. Of text the characters' numbers, one `int64` each.")
          .Default("the model's: `image`, or `tokens` for text")
          .OfGraphs(),
      Key("data.label_feature", RIVULET_FIELD(data.label_feature), "\"digit\"",
          "Feature with the class: one `int64`, from 0 to the model's classes less one; of text one a position."),
      Key("data.partition.kind", RIVULET_FIELD(data.partition.kind), "\"shards\"",
          "How the training data is divided into clients: `iid` shuffles and deals evenly; `shards` sorts by label, "
          "cuts, and deals each client a few cuts (McMahan et al. 2017); `dirichlet` draws each client's label "
          "proportions (Hsu et al. 2019); `by_key` makes a client of every value of a feature.")
          .OneOf({"iid", "shards", "dirichlet", "by_key"}),
      Key("data.partition.clients", RIVULET_FIELD(data.partition.clients), "100",
          "How many clients there are. Under `by_key` a cap: the first so many keys in byte order, and 0 takes every "
          "key. `up --clients N` sets it.")
          .Between(0, 1e8)
          .Default("0, which only `by_key` allows"),
      Key("data.partition.shards_per_client", RIVULET_FIELD(data.partition.shards_per_client), "3",
          "Cuts dealt to each client.")
          .Between(1, 1e6)
          .When("data.partition.kind", IsShards, "data.partition.kind is \"shards\""),
      Key("data.partition.alpha", RIVULET_FIELD(data.partition.alpha), "0.1",
          "Concentration of the Dirichlet distribution: small makes clients unlike, large alike.")
          .Above(0)
          .When("data.partition.kind", IsDirichlet, "data.partition.kind is \"dirichlet\""),
      Key("data.partition.key", RIVULET_FIELD(data.partition.key), "\"author\"",
          "Feature whose values are the clients.")
          .When("data.partition.kind", IsByKey, "data.partition.kind is \"by_key\""),
      Key("data.synth.kind", RIVULET_FIELD(data.synth.kind), "\"digits\"",
          "Data generated on first use, when `data.train` does not exist: `digits` renders handwritten-like digits by "
          "writers with habits of their own (feature `writer`).")
          .OneOf({"", "digits"}),
      ForSynth(Key("data.synth.writers", RIVULET_FIELD(data.synth.writers), "50", "Writers of the training file.")
                   .Between(1, 1e6)),
      ForSynth(Key("data.synth.test_writers", RIVULET_FIELD(data.synth.test_writers), "10",
                   "Writers of the test file, none of whom wrote for training.")
                   .Between(1, 1e6)),
      ForSynth(Key("data.synth.examples_per_writer", RIVULET_FIELD(data.synth.examples_per_writer), "30",
                   "Digits by each writer.")
                   .Between(1, 1e6)),
      ForSynth(Key("data.synth.seed", RIVULET_FIELD(data.synth.seed), "2",
                   "Decides the generated data, whatever `run.seed` is.")
                   .AtLeast(0)),
  };
}

}  // namespace rivulet::scenario
