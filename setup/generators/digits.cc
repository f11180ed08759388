// Handwritten-like digits by writers with habits (engine/datasets/synth_digits.h).
#include "engine/datasets/synth_digits.h"
#include "setup/generators/generator.h"

namespace rivulet {
namespace {

Status WriteDigits(const GeneratorRequest& request) {
  const Settings& settings = request.settings;
  const SynthDigitsOptions options{settings.integer("writers"), settings.integer("test_writers"),
                                   settings.integer("examples_per_writer"),
                                   static_cast<uint64_t>(settings.integer("seed"))};
  return WriteSynthDigits(request.files, options, request.train, request.test, request.progress);
}

RIVULET_GENERATOR(
    digits_registration,
    {.name = "digits",
     .doc = "handwritten-like digits by writers with different habits (feature `writer`)",
     .settings =
         {WithExample(Integer("writers", 100, "Writers of the training file.").Between(1, 1e6), "50"),
          WithExample(Integer("test_writers", 20, "Writers of the test file; none of them is in the training file.")
                          .Between(1, 1e6),
                      "10"),
          WithExample(Integer("examples_per_writer", 60, "Digits by each writer.").Between(1, 1e6), "30"),
          WithExample(Integer("seed", 1, "Seed of the generated data, independent of `run.seed`.").AtLeast(0), "2")},
     .write = WriteDigits});

}  // namespace
}  // namespace rivulet
