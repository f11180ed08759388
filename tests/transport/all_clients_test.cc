// The client list of a possibly malicious coordinator: it is finite and takes bounded memory.
#include "federated/transport/all_clients.h"

#include "tests/testing/status_matchers.h"

namespace rivulet::testing {
namespace {

using ::testing::HasSubstr;

// Has pages without end: each of `page` clients with names of `bytes` bytes.
class EndlessList : public ControlApi {
 public:
  StatusOr<ServedRuns> Runs(const OperatorCaller&) override { return ServedRuns(); }
  StatusOr<ClientPage> Clients(const OperatorCaller&, const std::string& after) override {
    EXPECT_EQ(after, last);
    ++asked;
    ClientPage reply{.clients = {}, .more = asked != pages};
    for (int i = 0; i < page; ++i) {
      last = fmt::format("{:0{}}", in_order ? named++ : named--, bytes);
      reply.clients.push_back({.client_id = last});
    }
    return reply;
  }
  StatusOr<std::vector<AuditEntry>> Audit(const OperatorCaller&) override { return std::vector<AuditEntry>(); }
  StatusOr<std::string> Command(const OperatorCaller&, const OperatorCommand&) override { return ""; }
  StatusOr<std::string> StartRun(const OperatorCaller&, const RunSubmission&) override { return ""; }

  int page = 2, pages = 0, named = 1000, asked = 0;
  size_t bytes = 8;
  bool in_order = true;
  std::string last;
};

TEST(AllClients, PagesUntilThereAreNoMore_AreOneList) {
  EndlessList list;
  list.pages = 3;
  ASSERT_OK_AND_ASSIGN(const auto clients, AllClients(list));
  ASSERT_EQ(clients.size(), 6u);
  EXPECT_EQ(clients.front().client_id, "00001000");
  EXPECT_EQ(clients.back().client_id, "00001005");
  EXPECT_EQ(list.asked, 3);
}

TEST(AllClients, EmptyPageThatPromisesMore_EndsTheList) {
  EndlessList list;
  list.page = 0;
  ASSERT_OK_AND_ASSIGN(const auto clients, AllClients(list));
  EXPECT_TRUE(clients.empty());
  EXPECT_EQ(list.asked, 1);
}

TEST(AllClients, EndlessList_IsRefusedAtItsBound) {
  EndlessList list;
  list.bytes = 1000;
  EXPECT_THAT(AllClients(list, 10'000'000),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("more than 10 MB")));
  EXPECT_LT(list.asked, 5000) << "each page has 2 kB at least";
  EXPECT_GT(list.asked, 2500);
}

TEST(AllClients, ListThatTurnsBack_IsRefused) {
  EndlessList list;
  list.in_order = false;
  EXPECT_THAT(AllClients(list), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("'00000999' came after '00001000'")));
}

}  // namespace
}  // namespace rivulet::testing
