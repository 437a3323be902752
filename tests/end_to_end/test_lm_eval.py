"""lm_eval's tasks on model directories: as many right answers as we count, and the numbers of lm_eval's own models."""

import json
import re
import runpy
import subprocess
import sys
from functools import partialmethod
from pathlib import Path

import pytest
import torch
from helpers import randomised, unsealed

from manyheads.core.errors import ConfigError
from manyheads.interop.directory import save_model
from manyheads.models.gpt import GPT, GPTConfig
from manyheads.models.llama import Llama, LlamaConfig
from manyheads.tasks.language.scoring import read_choice_questions, score_choices
from manyheads.tasks.language.use import LanguageModel
from manyheads.text.language import LanguageTokenizer

lm_eval = pytest.importorskip("lm_eval", reason="lm_eval is not installed: pip install 'manyheads[evaluate]'")
transformers = pytest.importorskip("transformers")

from lm_eval.api.instance import Instance  # noqa: E402
from lm_eval.models.huggingface import HFLM  # noqa: E402
from lm_eval.tasks import TaskManager  # noqa: E402

from manyheads.evals.lm_eval import ManyheadsLM, main  # noqa: E402

CONTEXT = 23
SENTENCE = "a dog sleeps under the table while the cat danced and the old bird sees a young tree"
WORDS = SENTENCE.split()
TASKS = ("choosing", "going_on", "perplexity")


def words(count: int) -> str:
    """Words as chance has it."""
    return " ".join(WORDS[each] for each in torch.randint(len(WORDS), (count,)).tolist())


def made(directory: Path, family: str) -> Path:
    """A run directory whose model has weights as chance has them; Llama's tokenizer begins a text with <s>."""
    torch.manual_seed(3)
    tokenizer = LanguageTokenizer.train([SENTENCE] * 3, 300)
    sizes = {"context": CONTEXT, "width": 24, "layers": 2, "heads": 3}
    if family == "gpt":
        model: GPT | Llama = GPT(GPTConfig(vocabulary=len(tokenizer), end=tokenizer.end, **sizes))
    else:
        tokenizer = tokenizer.with_special(["<s>"]).with_template(["<s>", "$A"])
        model = Llama(LlamaConfig(vocabulary=len(tokenizer), end=tokenizer.end, inner=37, key_value_heads=3, **sizes))
    save_model(directory / "model", randomised(model), tokenizer, "card")
    if family == "llama":
        beside = unsealed(directory / "model") / "tokenizer_config.json"
        beside.write_text(json.dumps({**json.loads(beside.read_text(encoding="utf-8")), "bos_token": "<s>"}))
    return directory


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> dict[str, Path]:
    return {family: made(tmp_path_factory.mktemp("runs") / family, family) for family in ("gpt", "llama")}


@pytest.fixture(scope="module")
def tasks(tmp_path_factory) -> Path:
    """A folder with three tasks of lm_eval and their data."""
    torch.manual_seed(5)
    folder = tmp_path_factory.mktemp("tasks")
    choices = []
    for each in range(30):
        question = {"context": words(2 + each % 9), "choices": [f" {words(1 + choice)}" for choice in range(3)]}
        choices.append({**question, "answer": each % 3})
    texts = [{"text": words(count)} for count in (1, 5, 29, 70)]
    scored = "metric_list: [{metric: word_perplexity}, {metric: bits_per_byte}]"
    entries = {
        "choosing": (
            choices,
            'output_type: multiple_choice\ndoc_to_text: "{{context}}"\ndoc_to_choice: choices\ndoc_to_target: answer\n'
            'target_delimiter: ""\nmetric_list: [{metric: acc}, {metric: acc_norm}]',
        ),
        "going_on": (
            texts,
            'output_type: generate_until\ndoc_to_text: "{{text}}"\ndoc_to_target: "x"\n'
            'generation_kwargs: {until: ["e", "\\n"], max_gen_toks: 9}\nmetric_list: [{metric: exact_match}]',
        ),
        "perplexity": (
            texts,
            f'output_type: loglikelihood_rolling\ndoc_to_text: ""\ndoc_to_target: "{{{{text}}}}"\n{scored}',
        ),
    }
    for name, (rows, how) in entries.items():
        data = folder / f"{name}.jsonl"
        data.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
        kept = f"dataset_kwargs: {{data_files: {{test: '{data}'}}, cache_dir: '{folder / 'cache'}'}}"
        (folder / f"{name}.yaml").write_text(f"task: {name}\ndataset_path: json\n{kept}\ntest_split: test\n{how}\n")
    return folder


@pytest.fixture(autouse=True)
def _offline(monkeypatch):
    for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)


def asked(kind: str, *rows: tuple) -> list[Instance]:
    return [Instance(request_type=kind, doc={}, arguments=row, idx=0) for row in rows]  # type: ignore


def theirs(run: Path, **changes) -> HFLM:
    return HFLM(pretrained=str(run / "model"), device="cpu", **changes)


def test_tasks_give_what_we_count_and_what_they_count(runs, tasks):
    def evaluated(model):
        manager = TaskManager(include_path=str(tasks), include_defaults=False)
        return lm_eval.simple_evaluate(model=model, tasks=list(TASKS), task_manager=manager, bootstrap_iters=0)

    ours, others = evaluated(ManyheadsLM(runs["gpt"], device="cpu")), evaluated(theirs(runs["gpt"]))
    counted = score_choices(
        LanguageModel.load(runs["gpt"], device="cpu"), read_choice_questions(tasks / "choosing.jsonl")
    )
    found = ours["results"]["choosing"]
    assert found["acc,none"] == counted.accuracy == others["results"]["choosing"]["acc,none"]
    assert found["acc_norm,none"] == counted.normalised == others["results"]["choosing"]["acc_norm,none"]
    assert 0 < counted.accuracy != counted.normalised < 1  # and the test can tell

    def answers(results, task):
        samples = sorted(results["samples"][task], key=lambda sample: sample["doc_id"])
        return [answer for sample in samples for response in sample["resps"] for answer in response]

    scored = list(zip(answers(ours, "choosing"), answers(others, "choosing"), strict=True))
    assert len(scored) == 90
    for our, other in scored:
        assert our[0] == pytest.approx(other[0], abs=1e-3)
        assert our[1] == other[1]
    assert answers(ours, "perplexity") == pytest.approx(answers(others, "perplexity"), abs=1e-3)
    assert ours["results"]["perplexity"]["bits_per_byte,none"] > 1
    texts = answers(ours, "going_on")
    assert texts == answers(others, "going_on")
    assert all(texts)
    assert not any("e" in text for text in texts)


@pytest.mark.parametrize("family", ["gpt", "llama"])
def test_requests_are_answered_as_by_their_own_models(runs, family):
    ours, others = ManyheadsLM(runs[family], device="cpu"), theirs(runs[family])
    rows = [
        ("", "the cat"),
        ("", " the cat danced"),
        ("the dog ", "sleeps"),  # a space behind the context becomes one before the continuation
        ("<s>the dog" if family == "llama" else "<|endoftext|>the dog", " sleeps"),
        (words(40), f" {words(3)}"),
        (words(2), f" {words(9)}"),
    ]
    assert all(len(ours.tok_encode(text)) <= CONTEXT for _, text in rows)
    found = ours.loglikelihood(asked("loglikelihood", *rows), disable_tqdm=True)
    expected = others.loglikelihood(asked("loglikelihood", *rows), disable_tqdm=True)
    assert [each[0] for each in found] == pytest.approx([each[0] for each in expected], abs=1e-3)
    best = ours.generate_until(asked("generate_until", ("the dog", {"max_gen_toks": 1})))[0]
    assert ours.loglikelihood(asked("loglikelihood", ("the dog", best)))[0][1]  # greedy search would have written it
    assert not all(greedy for _, greedy in found)

    texts = [("",), ("a",), (words(8),), (words(50),)]
    unseen = theirs(runs[family], add_bos_token=False)  # what begins a text is not predicted
    assert ours.loglikelihood_rolling(asked("loglikelihood_rolling", *texts)) == pytest.approx(
        unseen.loglikelihood_rolling(asked("loglikelihood_rolling", *texts)), abs=1e-3
    )
    prompts = [(words(count), {"until": ["d"], "max_gen_toks": tokens}) for count, tokens in ((1, 9), (6, 9), (40, 13))]
    written = ours.generate_until(asked("generate_until", *prompts))
    assert written == others.generate_until(asked("generate_until", *prompts))
    assert len({*written}) == 3


def test_a_repeated_request_is_a_further_sample(runs):
    model = ManyheadsLM(runs["gpt"], device="cpu")
    how = {"do_sample": True, "temperature": 0.9, "max_gen_toks": 7, "until": []}
    rows = [("the dog", how), ("a cat sees the", how), ("the dog", how)]
    first, other, second = model.generate_until(asked("generate_until", *rows))
    assert first != second
    assert model.generate_until(asked("generate_until", rows[1], rows[0])) == [other, first]


def test_more_is_written_than_the_model_sees(runs):
    model = ManyheadsLM(runs["gpt"], device="cpu")
    (text,) = model.generate_until(asked("generate_until", (words(40), {"max_gen_toks": 3 * CONTEXT, "until": []})))
    assert len(text) > CONTEXT


def test_what_cannot_be_is_refused_in_a_sentence(runs):
    model = ManyheadsLM(runs["gpt"], device="cpu")
    with pytest.raises(ConfigError, match="num_beams"):
        model.generate_until(asked("generate_until", ("a", {"num_beams": 4})))
    with pytest.raises(ConfigError, match=f"fit the model's {CONTEXT}"):
        model.loglikelihood(asked("loglikelihood", ("a", f" {words(60)}")))
    with pytest.raises(ConfigError, match="float32 or bfloat16"):
        ManyheadsLM(runs["gpt"], precision="half")


def command_line(run: Path, tasks: Path) -> list[str]:
    flags = ["--model", "manyheads", "--model_args", f"pretrained={run}", "--device", "cpu"]
    return ["manyheads.evals.lm_eval", *flags, "--tasks", "choosing", "--include_path", str(tasks)]


def accuracy_shown(run: Path, tasks: Path, shown: str) -> None:
    counted = score_choices(LanguageModel.load(run, device="cpu"), read_choice_questions(tasks / "choosing.jsonl"))
    assert re.findall(r"\|acc +\|↑ +\|([0-9.]+)\|", shown) == [f"{counted.accuracy:.4f}"]


def test_the_command_line_is_theirs_with_one_model_more(runs, tasks, monkeypatch, capsys):
    # Without lm_eval's own tasks, thousands of files that it reads first.
    monkeypatch.setattr(
        "lm_eval.tasks.TaskManager.__init__", partialmethod(TaskManager.__init__, include_defaults=False)
    )
    monkeypatch.setattr("sys.argv", command_line(runs["gpt"], tasks))
    main()
    accuracy_shown(runs["gpt"], tasks, capsys.readouterr().out)


@pytest.mark.slow
def test_the_command_line_with_all_of_their_tasks_in_a_process_of_its_own(runs, tasks, tmp_path):
    command = [sys.executable, "-m", *command_line(runs["gpt"], tasks)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    accuracy_shown(runs["gpt"], tasks, done.stdout)


def test_what_a_user_can_mend_is_one_sentence_there(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("lm_eval.__main__.cli_evaluate", lambda: ManyheadsLM(tmp_path / "nothing"))
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith(f"manyheads: {tmp_path / 'nothing'} does not exist")


def test_without_lm_eval_a_sentence_says_what_to_install(monkeypatch, capsys):
    for name in ["lm_eval", *(name for name in sys.modules if name.startswith("lm_eval."))]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "manyheads.evals.lm_eval")
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("manyheads.evals.lm_eval", run_name="__main__")
    assert ended.value.code == 2
    assert "pip install 'manyheads[evaluate]'" in capsys.readouterr().err
