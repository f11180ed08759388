// Structs cross as messages without losing a field. Whoever adds a field to a message meets EveryFieldIsSet, which
// fails until the sample below gives it a value; whoever forgets one of the two directions meets the round trip.
#include "federated/transport/messages.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;

// Every field of `message` has another value than a fresh one's, and so have those of the messages in it.
void ExpectEveryFieldIsSet(const google::protobuf::Message& message) {
  const google::protobuf::Descriptor& type = *message.GetDescriptor();
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  for (int i = 0; i < type.field_count(); ++i) {
    const google::protobuf::FieldDescriptor* field = type.field(i);
    if (field->is_repeated()) {
      ASSERT_GT(reflection.FieldSize(message, field), 0) << field->full_name();
      if (field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE) {
        ExpectEveryFieldIsSet(reflection.GetRepeatedMessage(message, field, 0));
      }
    } else {
      ASSERT_TRUE(reflection.HasField(message, field)) << field->full_name();
      if (field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE) {
        ExpectEveryFieldIsSet(reflection.GetMessage(message, field));
      }
    }
  }
}

// To a message and back to a struct that gives the same message.
template <typename Message, typename Struct>
void ExpectCrossesWhole(const Struct& sample) {
  Message message, again;
  ToMessage(sample, &message);
  ExpectEveryFieldIsSet(message);
  const StatusOr<Struct> back = FromMessage(message);
  ASSERT_OK(back);
  ToMessage(*back, &again);
  EXPECT_EQ(again.DebugString(), message.DebugString());
}

Task SomeTask() {
  Task task{.id = "run-7-r3-a2-client-00003-65535", .run_id = "run-7", .client_id = "client-00003"};
  task.kind = TaskKind::kEvaluate;
  task.step = 2;
  task.base_version = 2;
  task.ordinal = 65535;
  task.stream_key = 0xFFFFFFFFFFFFFFFF;
  task.plan = Sha256Of("plan");
  task.state_of = "run-7-r1-a1-client-00003-0";
  task.gather = uint64_t{1} << 63;
  task.keep = true;
  task.numbers = {{"mu", 0.1}};
  task.inputs = {{"model", {BlobId::Form::kModel, Sha256Of("model")}}, {"other", {}}};
  return task;
}

TEST(Messages, Caller_CrossesWhole) {
  ExpectCrossesWhole<rpc::CallerProto>(Caller{.name = "client-00003", .run_id = "run-7", .session = uint64_t{1} << 63});
}

TEST(Messages, PollRequest_CrossesWhole) {
  PollRequest request{.caller = {.name = "client-00003", .run_id = "run-7", .session = uint64_t{1} << 63},
                      .hold_ms = 20'000,
                      .told = true};
  request.capabilities = {
      .version = "0.1.0", .protocol = 7, .datasets = {{"train", 600, {"icu", "adult"}}, {"extra", 1, {"icu"}}}};
  request.serves = {
      Serves::Kind::kNames,
      {{"ward 7", {{"train", 12, {"icu"}}}}, {"ward 8", {{"train", 3, {"adult"}}, {"test", 1, {"icu"}}}}}};
  request.working_on = {{"task-1", true, 2}, {"task-2"}};
  request.want = 3;
  ExpectCrossesWhole<rpc::PollRequestProto>(request);
}

TEST(Messages, PollReply_CrossesWhole) {
  PollReply reply;
  reply.tasks = {SomeTask(), Task{.id = "task-2"}};
  reply.cancelled = {"task-3", "task-4"};
  reply.hand_over = {{.gather = uint64_t{1} << 63, .tasks = {"task-5", "task-6"}}};
  reply.outcomes.push_back({"task-0", TaskEnd::kRefused, "NaN", true});
  reply.refused_names = {{"ward 8", InvalidArgument("no data set")}};
  reply.wait_ms = 5;
  reply.awaited.sentence = "1 of 2 clients";
  reply.over = PollReply::Over{.failed = true, .sentence = "it failed"};
  ExpectCrossesWhole<rpc::PollReplyProto>(reply);
}

TEST(Messages, Submission_CrossesWhole) {
  ExpectCrossesWhole<rpc::SubmissionProto>(
      Submission{.task = "task-1",
                 .step = 2,
                 .bytes = int64_t{1} << 40,
                 .measured = {.train_seconds = 0.25, .fold_seconds = 0.5, .lanes = 4},
                 .kind = Submission::Kind::kStep,
                 .gather = uint64_t{1} << 63});
}

TEST(Messages, TaskFailure_CrossesWhole) {
  ExpectCrossesWhole<rpc::TaskFailureProto>(TaskFailure{
      .task = "task-1", .code = TaskFailure::Code::kBadExample, .subject = "label", .counts = {{"record", 3}}});
}

// They are printed, logged and stored by whoever gets them.
TEST(Messages, WordsOfTheOtherSide_AreCleanedAndShortened) {
  const std::string hostile = "done\n\x1b[2Jround 9 \xe2\x80\xae" + std::string(100'000, 'x');
  rpc::PollReplyProto message;
  message.mutable_awaited()->set_sentence(hostile);
  message.mutable_over()->set_sentence(hostile);
  message.add_outcomes()->set_reason(hostile);
  message.mutable_outcomes(0)->set_end(static_cast<int>(TaskEnd::kFailed));
  rpc::RefusedNameProto* const refused = message.add_refused_names();
  refused->set_code(static_cast<int>(absl::StatusCode::kInvalidArgument));
  refused->set_sentence(hostile);
  rpc::SubmitResultProto result;
  result.set_reason(hostile);
  const auto reply = FromMessage(message);
  ASSERT_OK(reply);
  const auto submitted = FromMessage(result);
  ASSERT_OK(submitted);
  for (const std::string& words : {reply->awaited.sentence, reply->over->sentence, reply->outcomes[0].reason,
                                   std::string(Message(reply->refused_names[0].reason)), submitted->reason}) {
    EXPECT_TRUE(words.starts_with("done??[2Jround 9 ?xxx")) << words.substr(0, 40);
    EXPECT_LE(words.size(), 2003u);
  }
}

// What a client's log says is its own, and a reason that this program does not know is no reason to lose the rest.
TEST(Messages, TaskFailure_SentenceStaysAndUnknownCodeIsUnknown) {
  rpc::TaskFailureProto message;
  ToMessage(TaskFailure{.task = "task-1", .code = TaskFailure::Code::kBadPlan, .sentence = "/home/ann/x-rays"},
            &message);
  EXPECT_EQ(message.SerializeAsString().find("ann"), std::string::npos);
  message.set_code(99);
  EXPECT_EQ(FromMessage(message).code, TaskFailure::Code::kUnknown);
  EXPECT_EQ(FromMessage(message).task, "task-1");
}

TEST(Messages, EveryEndOfATask_CrossesAndAnUnknownOneIsRefused) {
  for (const TaskEnd end : {TaskEnd::kFolded, TaskEnd::kRefused, TaskEnd::kDropped, TaskEnd::kFailed}) {
    rpc::PollReplyProto message;
    ToMessage(PollReply{.outcomes = {{"task-0", end, ""}}}, &message);
    const auto back = FromMessage(message);
    ASSERT_OK(back);
    EXPECT_EQ(back->outcomes.at(0).end, end);
    message.mutable_outcomes(0)->set_end(4);
    EXPECT_THAT(FromMessage(message), StatusIs(absl::StatusCode::kInvalidArgument));
  }
}

TEST(Messages, SubmissionOfNegativeSize_IsRefused) {
  rpc::SubmissionProto message;
  ToMessage(Submission{.task = "task-1", .bytes = -1}, &message);
  EXPECT_THAT(FromMessage(message), StatusIs(absl::StatusCode::kInvalidArgument));
  message.set_bytes(1);
  EXPECT_OK(FromMessage(message));
}

TEST(Messages, KindOfSubmissionOrOfSiteThatIsNone_IsRefused) {
  rpc::SubmissionProto submission;
  ToMessage(Submission{.task = "task-1"}, &submission);
  submission.set_kind(4);
  EXPECT_THAT(FromMessage(submission), StatusIs(absl::StatusCode::kInvalidArgument));
  rpc::PollRequestProto poll;
  ToMessage(PollRequest{}, &poll);
  poll.set_serves(3);
  EXPECT_THAT(FromMessage(poll), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(Messages, AggregatorsPollAndWhoIsTurnedAway_CrossWhole) {
  PollRequest request;
  request.serves = {Serves::Kind::kNames, {{"ward 7", {{"train", 12}, {"test", 3}}}, {"ward 8", {}}}};
  rpc::PollRequestProto message;
  ToMessage(request, &message);
  const auto read = FromMessage(message);
  ASSERT_OK(read);
  EXPECT_EQ(read->serves.kind, Serves::Kind::kNames);
  ASSERT_EQ(read->serves.names.size(), 2u);
  EXPECT_EQ(read->serves.names[0].name, "ward 7");
  EXPECT_EQ(read->serves.names[0].datasets.at(1).examples, 3);

  rpc::PollReplyProto reply;
  ToMessage(PollReply{.refused_names = {{"ward 8", InvalidArgument("no data set")}}}, &reply);
  const auto told = FromMessage(reply);
  ASSERT_OK(told);
  ASSERT_EQ(told->refused_names.size(), 1u);
  EXPECT_EQ(told->refused_names[0].reason, InvalidArgument("no data set"));
  reply.mutable_refused_names(0)->set_code(0);
  EXPECT_THAT(FromMessage(reply), StatusIs(absl::StatusCode::kInvalidArgument));
  reply.mutable_refused_names(0)->set_code(99);
  EXPECT_THAT(FromMessage(reply), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(Messages, AggregatorThatNamesMoreClientsThanOneMessageHas_IsRefused) {
  PollRequest request;
  request.serves = {Serves::Kind::kNames, std::vector<ServedName>(kMostServed + 1)};
  rpc::PollRequestProto message;
  ToMessage(request, &message);
  EXPECT_THAT(FromMessage(message), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(Messages, SubmitResult_CrossesWhole) {
  ExpectCrossesWhole<rpc::SubmitResultProto>(SubmitResult{SubmitResult::Kind::kRefused, "NaN"});
}

TEST(Messages, TaskOutOfRange_IsRefused) {
  const auto error = [](auto change) {
    rpc::PollReplyProto message;
    ToMessage(PollReply{.tasks = {SomeTask()}}, &message);
    change(*message.mutable_tasks(0));
    return FromMessage(message).status();
  };
  using ::testing::HasSubstr;
  EXPECT_OK(error([](rpc::TaskProto&) {}));
  EXPECT_THAT(error([](rpc::TaskProto& t) { t.set_ordinal(65536); }),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("ordinal 65536")));
  EXPECT_THAT(error([](rpc::TaskProto& t) { t.set_base_version(-1); }),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("base version -1")));
  EXPECT_THAT(error([](rpc::TaskProto& t) { t.set_step(-1); }),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("step -1")));
  EXPECT_THAT(error([](rpc::TaskProto& t) { t.set_kind(7); }),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("a task of kind 7")));
  EXPECT_THAT(error([](rpc::TaskProto& t) { t.set_plan("short"); }), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(error([](rpc::TaskProto& t) { t.mutable_inputs(0)->mutable_id()->set_form(4); }),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("a blob of form 4")));
}

}  // namespace
}  // namespace rivulet
