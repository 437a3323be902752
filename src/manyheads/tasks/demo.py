"""The demonstration: a translator from scratch, its score, its words and a page of what it looks at."""

from pathlib import Path

from manyheads.core.errors import ConfigError, Stopped
from manyheads.core.log import say
from manyheads.data.sample import sample_corpus
from manyheads.tasks.inside.look import look_inside
from manyheads.tasks.run import resolve, resolve_again, train
from manyheads.tasks.run_directory import recipe_file
from manyheads.tasks.translate.use import Translator, score

SENTENCE, IN_A_HURRY = "The cat danced.", "the cat danced"


def demonstrate(run: Path, command: str = "manyheads") -> None:
    """Trains on the sample corpus, or goes on with a demonstration that was stopped, and shows what came of it.

    `command` is what a person types to run manyheads.
    """
    recipe, resume = resolve("translate"), recipe_file(run).exists()
    if resume and resolve_again(run, "translate") != recipe:
        raise ConfigError(f"{run} is another run than a demonstration; give another --out")
    try:
        progress = train(recipe, run, resume=resume)
    except Stopped as stopped:
        raise Stopped(f"{stopped}; go on with: {command} demo --out {run}", stopped.exit_code) from None
    translator = Translator.load(run)
    test = sample_corpus()["test"]
    say("translating the test set: combinations of words that never occur together in training")
    found = translator.translate([pair.source for pair in test])
    scores = score(found, [pair.target for pair in test])
    (bleu, bleu_signature), (chrf, chrf_signature) = scores["BLEU"], scores["chrF"]
    for pair, translation in list(zip(test, found))[:: max(len(test) // 6, 1)][:6]:
        print(
            f"\n  {pair.source}\n→ {translation}" + ("" if translation == pair.target else f"\n  (not {pair.target})")
        )
    print(f"\nBLEU {bleu:.1f} on {len(test)} held-out sentences   {bleu_signature}")
    print(f"chrF {chrf:.1f}   {chrf_signature}")
    print(f"trained for {progress.seconds / 60:.1f} minutes\n")
    inside, page = look_inside(run, SENTENCE), run / "look.html"
    inside.page().save(page)
    print(f"{inside.text}\n{IN_A_HURRY} → {translator.translate([IN_A_HURRY])[0]}\n")
    print(f"its attention       {page}   (open it in a browser)")
    print(f"the model           {run / 'model'}   (opens in transformers as MarianMTModel)")
    print(f"its recipe          {run / 'recipe.toml'}")
    print(f"how it learned      {run / 'metrics.jsonl'}   (tensorboard --logdir {run / 'tensorboard'})\n")
    print("try next:")
    print(f"  echo 'The old dog sleeps under the table.' | {command} translate {run}")
    print(f"  {command} look {run} 'The old dog sleeps under the table.'")
    print(f"  {command} walk")
    print(f"  {command} selfcheck {run}")
    print(f"  {command} train translate --source my.en --target my.de --out runs/mine")
