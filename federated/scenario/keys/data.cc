// [data]: records, how they are shared out, and records that are generated.
#include "federated/scenario/keys.h"

namespace rivulet::scenario {
namespace {

bool IsShards(const Scenario& s) { return s.data.partition.kind == "shards"; }
bool HasAlpha(const Scenario& s) {
  return s.data.partition.kind == "dirichlet" || s.data.partition.kind == "label_dirichlet";
}
bool IsLabelDirichlet(const Scenario& s) { return s.data.partition.kind == "label_dirichlet"; }
bool IsPathological(const Scenario& s) { return s.data.partition.kind == "pathological"; }
bool IsDistribution(const Scenario& s) { return s.data.partition.kind == "distribution"; }
bool IsContinuous(const Scenario& s) { return s.data.partition.kind == "continuous"; }
bool HasSizes(const Scenario& s) {
  const std::string& kind = s.data.partition.kind;
  return kind == "iid" || kind == "dirichlet" || kind == "continuous";
}
bool HasSkew(const Scenario& s) {
  const std::string& sizes = s.data.partition.sizes;
  return HasSizes(s) && (sizes == "exponential" || sizes == "power_law" || sizes == "lognormal");
}
bool HasSizeAlpha(const Scenario& s) { return HasSizes(s) && s.data.partition.sizes == "dirichlet"; }
bool IsByKey(const Scenario& s) { return s.data.partition.kind == "by_key"; }
bool HasFeatureOfItsOwn(const Scenario& s) { return s.model.inputs.empty() && s.model.arrays.empty(); }
bool HasShift(const Scenario& s) { return !s.data.shift.kind.empty(); }
Key&& ForShift(Key&& key) { return std::move(key).When("data.shift.kind", HasShift, "data.shift.kind is given"); }
bool HasSynth(const Scenario& s) { return !s.data.synth.kind.empty(); }
Key&& ForSynth(Key&& key) { return std::move(key).When("data.synth.kind", HasSynth, "data.synth.kind is given"); }

}  // namespace

std::vector<Key> DataKeys() {
  return {
      Key("data.train", RIVULET_FIELD(data.train), "\"mnist/train.tfrecord\"",
          "TFRecord file of `tf.train.Example` that the clients of a simulation share out, or several that match a "
          "pattern (`train-*.tfrecord`), in the order of their names. A coordinator needs none: its clients have their "
          "data.")
          .Path()
          .Default("none; with `data.synth.kind` a file under `data/` beside the scenario"),
      Key("data.test", RIVULET_FIELD(data.test), "\"mnist/test.tfrecord\"",
          "TFRecord file for central evaluation, or several that match a pattern. Empty: there is no test set.")
          .Path()
          .Default("none; with `data.synth.kind` `test.tfrecord` beside `data.train`")
          .OfGraphs(),
      Key("data.tests", RIVULET_FIELD(data.tests), "[\"rotated=mnist/rotated.tfrecord\"]",
          "Further test sets, a `NAME=FILE` each. Each is measured when `data.test` is and reported under its name: "
          "`NAME/accuracy`. The file may be a pattern.")
          .Path()
          .OfGraphs(),
      Key("data.validation", RIVULET_FIELD(data.validation), "\"mnist/validation.tfrecord\"",
          "TFRecord file, or a pattern, of the set that chooses versions. It is measured when `data.test` is, as "
          "`validation/accuracy` and so on. The best version (`run.keep_models`, `RUN:best`) is then the best on it, "
          "and the test set judges the choice.")
          .Path()
          .OfGraphs(),
      Key("data.validation_fraction", RIVULET_FIELD(data.validation_fraction), "0.1",
          "Holds so many of the training examples out of every client's data and has them for `data.validation`; "
          "`run.seed` draws which. 0: none.")
          .Between(0, 0.9)
          .OfGraphs(),
      Key("data.name", RIVULET_FIELD(data.name), "\"ward\"",
          "Name of the data set that clients train on, `--data NAME=GLOB`. A client may bind several, and so serve "
          "runs of different kinds."),
      Key("data.image_feature", RIVULET_FIELD(data.image_feature), "\"pixels\"",
          "Feature with the input. Of images one byte a pixel, as many as the model's input has elements; the model "
          "sees pixel / 255. Of text the characters' numbers, one `int64` each.")
          .Default("the model's: `image`, or `tokens` for text")
          .When("model.inputs", HasFeatureOfItsOwn, "neither model.inputs nor model.arrays is given"),
      Key("data.label_feature", RIVULET_FIELD(data.label_feature), "\"digit\"",
          "Feature with the target. A class is one `int64`, from 0 to the model's classes less one; for text one a "
          "position. With `model.target` labels are `int64` 0 and 1, and numbers are floats."),
      Key("data.partition.kind", RIVULET_FIELD(data.partition.kind), "\"shards\"",
          "How the training data is divided into clients. `iid` shuffles and deals; `shards` sorts by label, cuts, "
          "and deals each client a few cuts (McMahan et al. 2017). `dirichlet` draws each client's label proportions "
          "(Hsu et al. 2019). `label_dirichlet` draws how each label is divided over the clients (Yurochkin et al. "
          "2019). `pathological` gives each client a fixed number of labels (Li et al. 2022). `distribution` takes a "
          "matrix of labels and clients from a file; `continuous` sorts by a number that each example has; `by_key` "
          "makes a client of every value of a feature. [own data](../guide/own-data.md) says more.")
          .OneOf({"iid", "shards", "dirichlet", "label_dirichlet", "pathological", "distribution", "continuous",
                  "by_key"}),
      Key("data.partition.clients", RIVULET_FIELD(data.partition.clients), "100",
          "How many clients there are. Under `by_key` a cap: the first so many keys in byte order, and 0 takes every "
          "key. `up --clients N` sets it.")
          .Between(0, 1e8)
          .Default("0, which only `by_key` allows"),
      Key("data.partition.sizes", RIVULET_FIELD(data.partition.sizes), "\"linear\"",
          "Number of examples of client i = 0, 1, …: one, and the others in proportion to a weight. Weights: `even` "
          "1; `linear` i + 1; `square` (i + 1)²; `exponential` exp(skew · i); `power_law` (i + 1)^−skew; `lognormal` "
          "exp(skew · a normal draw); `dirichlet` a draw from Dirichlet(size_alpha).")
          .OneOf({"even", "linear", "square", "exponential", "power_law", "lognormal", "dirichlet"})
          .When("data.partition.kind", HasSizes, "data.partition.kind is \"iid\", \"dirichlet\" or \"continuous\""),
      Key("data.partition.skew", RIVULET_FIELD(data.partition.skew), "2.0",
          "How much sizes differ: the rate, the exponent or the deviation of their law.")
          .Above(0)
          .When("data.partition.sizes", HasSkew,
                "data.partition.sizes is \"exponential\", \"power_law\" or \"lognormal\""),
      Key("data.partition.size_alpha", RIVULET_FIELD(data.partition.size_alpha), "0.1",
          "Concentration of the sizes' Dirichlet distribution: small makes sizes unlike, large alike.")
          .Above(0)
          .When("data.partition.sizes", HasSizeAlpha, "data.partition.sizes is \"dirichlet\""),
      Key("data.partition.shards_per_client", RIVULET_FIELD(data.partition.shards_per_client), "3",
          "Cuts dealt to each client.")
          .Between(1, 1e6)
          .When("data.partition.kind", IsShards, "data.partition.kind is \"shards\""),
      Key("data.partition.alpha", RIVULET_FIELD(data.partition.alpha), "0.1",
          "Concentration of the Dirichlet distribution: small makes clients unlike, large alike.")
          .Above(0)
          .When("data.partition.kind", HasAlpha, "data.partition.kind is \"dirichlet\" or \"label_dirichlet\""),
      Key("data.partition.min_examples", RIVULET_FIELD(data.partition.min_examples), "10",
          "Fewest examples of a client; the division is drawn again until every client has so many.")
          .Between(1, 1e6)
          .When("data.partition.kind", IsLabelDirichlet, "data.partition.kind is \"label_dirichlet\""),
      Key("data.partition.labels_per_client", RIVULET_FIELD(data.partition.labels_per_client), "3",
          "Labels that each client has.")
          .Between(1, 1e6)
          .When("data.partition.kind", IsPathological, "data.partition.kind is \"pathological\""),
      Key("data.partition.distribution", RIVULET_FIELD(data.partition.distribution), "\"shares.csv\"",
          "A CSV file without header: a row for each client, a column for each label in increasing order, numbers from "
          "0. Each label's examples are divided in proportion to its column.")
          .Path()
          .When("data.partition.kind", IsDistribution, "data.partition.kind is \"distribution\""),
      Key("data.partition.property", RIVULET_FIELD(data.partition.property), "\"age\"",
          "Feature with one number, float or `int64`, that examples are sorted by.")
          .When("data.partition.kind", IsContinuous, "data.partition.kind is \"continuous\""),
      Key("data.partition.strictness", RIVULET_FIELD(data.partition.strictness), "0.5",
          "Examples are sorted by strictness · the property, standardised, + (1 − strictness) · a normal draw: 1 "
          "sorts, 0 shuffles.")
          .Between(0, 1)
          .When("data.partition.kind", IsContinuous, "data.partition.kind is \"continuous\""),
      Key("data.partition.key", RIVULET_FIELD(data.partition.key), "\"author\"",
          "Feature whose values are the clients.")
          .When("data.partition.kind", IsByKey, "data.partition.kind is \"by_key\""),
      Key("data.partition.tags", RIVULET_FIELD(data.partition.tags), "[\"icu=client-0000*\"]",
          "Tags of a simulation's clients, a `TAG=PATTERN` each: every client whose name matches has the tag; `*` "
          "stands for any characters. `selection.tags` says which are asked for."),
      Key("data.shift.kind", RIVULET_FIELD(data.shift.kind), "\"rotation\"",
          "Clients see the same things differently: `rotation` turns images (rotated MNIST); `noise` adds normal "
          "draws whose variance grows from client to client (Li et al. 2022); `brightness` adds to every value, "
          "`colour` scales red, green and blue. It changes the model's first input, in a simulation and in the files "
          "of `rivulet data partition`; test sets stay. [own data](../guide/own-data.md#shifted-features) has the "
          "laws.")
          .OneOf({"", "rotation", "noise", "brightness", "colour"})
          .OfGraphs(),
      ForShift(Key("data.shift.amount", RIVULET_FIELD(data.shift.amount), "90.0",
                   "How far the shifts of all clients reach: degrees of `rotation`, the largest variance of `noise`, "
                   "the largest step of `brightness`, the largest share that `colour` takes away. Pixels are 0 to 1.")
                   .Between(0, 1e6)
                   .Default("360 of `rotation`, 0.1 of `noise`, 0.5 of `brightness` and `colour`")),
      ForShift(Key("data.shift.groups", RIVULET_FIELD(data.shift.groups), "4",
                   "How many shifts there are, dealt to clients 0, 1, … in turn. 0: one for each client.")
                   .Between(0, 1e8)),
      Key("data.synth.kind", RIVULET_FIELD(data.synth.kind), "\"digits\"",
          "Data generated on first use, when `data.train` does not exist: `digits` renders handwritten-like digits by "
          "writers with habits of their own (feature `writer`).")
          .OneOf({"", "digits"}),
      ForSynth(Key("data.synth.writers", RIVULET_FIELD(data.synth.writers), "50", "Writers of the training file.")
                   .Between(1, 1e6)),
      ForSynth(Key("data.synth.test_writers", RIVULET_FIELD(data.synth.test_writers), "10",
                   "Writers of the test file; none of them is in the training file.")
                   .Between(1, 1e6)),
      ForSynth(Key("data.synth.examples_per_writer", RIVULET_FIELD(data.synth.examples_per_writer), "30",
                   "Digits by each writer.")
                   .Between(1, 1e6)),
      ForSynth(Key("data.synth.seed", RIVULET_FIELD(data.synth.seed), "2",
                   "Seed of the generated data, independent of `run.seed`.")
                   .AtLeast(0)),
  };
}

}  // namespace rivulet::scenario
