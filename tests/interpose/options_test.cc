#include <gtest/gtest.h>

#include <list>
#include <map>
#include <string>

#include "interpose/options/kept_texts.h"
#include "interpose/options/option_parse.h"

namespace cuheap::options {
namespace {

// As in a process, the texts outlive the options that point into them.
Rejection ParseFrom(const std::map<std::string, std::string>& values, Options* options) {
  static std::list<std::map<std::string, std::string>> environments;
  const auto& environment = environments.emplace_back(values);
  return ParseAll(
      [&](const char* name) {
        const auto found = environment.find(name);
        return found == environment.end() ? nullptr : found->second.c_str();
      },
      options);
}

TEST(Options, DefaultsAreValidAndHold) {
  Options options;
  EXPECT_EQ(ParseFrom({}, &options).variable, nullptr);
  EXPECT_EQ(options.mode, Mode::kDefault);
  EXPECT_TRUE(options.pack);
  EXPECT_EQ(options.free_barrier, Barrier::kAuto);
  EXPECT_EQ(options.event_memory, 256u << 20);
  EXPECT_EQ(options.quarantine_limit, 1u << 30);
  EXPECT_FALSE(options.test_no_quarantine);
  EXPECT_EQ(options.test_without, Rule::kNone);
  EXPECT_EQ(options.fill, -1);
}

TEST(Options, KeptTextsAreCopiesAndTheFirstOfANameCounts) {
  static KeptTexts kept;
  std::string mode = "CUHEAP_MODE=observe", again = "CUHEAP_MODE=pool", other = "HOME=/", bare = "CUHEAP_PACK";
  std::string empty = "CUHEAP_STACKS=", dir = "CUHEAP_DIR=/a=b/" + std::string(5000, 'd');
  const char* environment[] = {other.c_str(), bare.c_str(), mode.c_str(), again.c_str(),
                               empty.c_str(), dir.c_str(),  nullptr};
  kept.Fill(environment);
  for (std::string* text : {&mode, &again, &dir}) text->assign(text->size(), 'x');
  EXPECT_STREQ(kept("CUHEAP_MODE"), "observe");
  EXPECT_STREQ(kept("CUHEAP_STACKS"), "");
  EXPECT_EQ(kept("CUHEAP_DIR"), "/a=b/" + std::string(KeptTexts::kMaxText - 5, 'd'));
  EXPECT_EQ(kept("CUHEAP_PACK"), nullptr);
  EXPECT_EQ(kept("HOME"), nullptr);
}

TEST(Options, AByteIsDecimalOrHexadecimalOrOff) {
  Options options;
  for (const auto& [text, value] : {std::pair{"0", 0}, {"255", 255}, {"0x0", 0}, {"0XA5", 0xa5}, {"off", -1}}) {
    EXPECT_EQ(ParseFrom({{"CUHEAP_FILL", text}}, &options).variable, nullptr) << text;
    EXPECT_EQ(options.fill, value) << text;
  }
  for (const char* text : {"256", "-1", "0x", "0x100", "a5", "0xg0", "1 ", "00000000255", "on"}) {
    const std::map<std::string, std::string> environment = {{"CUHEAP_FILL", text}};
    EXPECT_NE(ParseFrom(environment, &options).variable, nullptr) << text;
  }
}

TEST(Options, ValuesAreRead) {
  Options options;
  EXPECT_EQ(ParseFrom({{"CUHEAP_DIR", "/some where"},
                       {"CUHEAP_MODE", "observe"},
                       {"CUHEAP_PACK", "off"},
                       {"CUHEAP_FREE_BARRIER", "never"},
                       {"CUHEAP_STACK_DEPTH", "20"},
                       {"CUHEAP_FILL", "0xfF"},
                       {"CUHEAP_QUARANTINE_LIMIT", "3MiB"}},
                      &options)
                .variable,
            nullptr);
  EXPECT_EQ(options.dir, "/some where");
  EXPECT_EQ(options.mode, Mode::kObserve);
  EXPECT_FALSE(options.pack);
  EXPECT_EQ(options.free_barrier, Barrier::kNever);
  EXPECT_EQ(options.stack_depth, 20u);
  EXPECT_EQ(options.fill, 255);
  EXPECT_EQ(options.quarantine_limit, 3u << 20);
}

TEST(Options, ARuleIsNamed) {
  Options options;
  EXPECT_EQ(ParseFrom({{"CUHEAP_TEST_WITHOUT", "wait"}}, &options).variable, nullptr);
  EXPECT_EQ(options.test_without, Rule::kWait);
  EXPECT_EQ(ParseFrom({{"CUHEAP_TEST_WITHOUT", "exit"}}, &options).variable, nullptr);
  EXPECT_EQ(options.test_without, Rule::kExit);
  EXPECT_NE(ParseFrom({{"CUHEAP_TEST_WITHOUT", "everything"}}, &options).variable, nullptr);
}

TEST(Options, AnEmptyTextIsTheDefault) {
  Options options;
  EXPECT_EQ(ParseFrom({{"CUHEAP_MODE", ""}}, &options).variable, nullptr);
}

TEST(Options, WhatIsNotUnderstoodIsNamedWithARemedy) {
  const std::map<std::string, std::string> bad = {
      {"CUHEAP_MODE", "cache"},          {"CUHEAP_MODE ", ""},
      {"CUHEAP_STACK_DEPTH", "0"},       {"CUHEAP_STACK_DEPTH", "-1"},
      {"CUHEAP_EVENT_MEMORY", "1t"},     {"CUHEAP_QUARANTINE_LIMIT", "99999999999999999999"},
      {"CUHEAP_SYNC_DEADLINE_MS", "1s"}, {"CUHEAP_PACK", "maybe"},
  };
  for (const auto& [name, value] : bad) {
    if (value.empty()) continue;
    Options options;
    const std::map<std::string, std::string> environment = {{name, value}};  // the rejection refers to it
    const Rejection rejection = ParseFrom(environment, &options);
    ASSERT_NE(rejection.variable, nullptr) << name << "=" << value;
    EXPECT_EQ(rejection.variable, name);
    EXPECT_EQ(rejection.value, value);
    EXPECT_STRNE(rejection.remedy, "");
  }
}

TEST(Options, DescriptionsValidateAsTheParserDoes) {
  for (const Description& description : kDescriptions) {
    const char* remedy = "";
    EXPECT_TRUE(Valid(description, description.default_value, &remedy)) << description.variable;
    if (description.kind != Kind::kText) {
      EXPECT_FALSE(Valid(description, "?", &remedy));
      EXPECT_STRNE(remedy, "");
    }
  }
}

}  // namespace
}  // namespace cuheap::options
