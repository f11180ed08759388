// Records of versions, as whoever checks a run reads them. What is accepted is written and read again.
#include <cstdlib>

#include "federated/records/proof.h"
#include "federated/records/receipt.h"
#include "federated/records/signed_record.h"
#include "tests/fuzz/target.h"

namespace rivulet::fuzz {
namespace {

records::VersionRecord SomeRecord() {
  return {.run = "heart",
          .version = 1,
          .previous = Digest(),
          .earlier = 1,
          .program = "0.2.0",
          .base = Digest(),
          .updates = 3,
          .privacy = records::RecordedPrivacy{.mechanism = "discrete_gaussian",
                                              .parameters = {{"clip", 0.5}},
                                              .epsilon = 1,
                                              .delta = 1e-5,
                                              .unit = "client",
                                              .relation = "add-remove"}};
}

const Registered version_record{{"version_record",
                                 [](std::string_view bytes) {
                                   const auto record = records::ReadVersionRecord(bytes);
                                   if (record.ok() && records::Write(*record) != bytes) std::abort();
                                   return record.ok();
                                 },
                                 [] { return std::vector{records::Write(SomeRecord())}; }}};

const Registered version_leaves{{"version_leaves",
                                 [](std::string_view bytes) {
                                   const auto leaves = records::ReadVersionLeaves(bytes);
                                   if (leaves.ok() && records::Write(*leaves) != bytes) std::abort();
                                   return leaves.ok();
                                 },
                                 [] {
                                   return std::vector{records::Write(records::VersionLeaves{
                                       .version = 3, .leaves = {Digest(), Sha256Of("an update")}})};
                                 }}};

records::SignedRecord SomeSigned() { return records::ReadSignedRecord(records::Unsigned(SomeRecord())).value(); }

const Registered receipt{{"receipt",
                          [](std::string_view bytes) {
                            const auto receipt = records::ReadReceipt(bytes);
                            if (!receipt.ok()) return false;
                            (void)records::CheckReceipt(*receipt);
                            if (records::Write(*receipt).value() != bytes) std::abort();
                            return true;
                          },
                          [] {
                            return std::vector{records::Write(records::Receipt{.task = "heart-r1-a1-c-0",
                                                                               .identity = Digest(),
                                                                               .path = {1, 3, {Digest(), Digest()}},
                                                                               .record = SomeSigned()})
                                                   .value()};
                          }}};

const Registered record_head{
    {"record_head",
     [](std::string_view bytes) {
       const auto head = records::ReadHead(bytes);
       if (!head.ok()) return false;
       (void)records::CheckExtends(*head, SomeSigned());
       if (records::Write(*head).value() != bytes) std::abort();
       return true;
     },
     [] {
       return std::vector{records::Write(records::Head{SomeSigned(), records::MerklePath{0, 1, {}}}).value()};
     }}};

const Registered signed_record{{"signed_record",
                                [](std::string_view bytes) { return records::ReadSignedRecord(bytes).ok(); },
                                [] { return std::vector{records::Unsigned(SomeRecord())}; }}};

}  // namespace
}  // namespace rivulet::fuzz
