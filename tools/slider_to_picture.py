"""From a key pressed on a slider to the new picture: how long that takes in a browser."""

from dataclasses import dataclass
from statistics import median

from playwright.sync_api import Locator, Page


@dataclass(frozen=True)
class Waits:
    """Milliseconds from each key's press to its picture, decoded and in the next frame."""

    milliseconds: list[float]

    @property
    def median(self) -> float:
        return median(self.milliseconds)

    @property
    def p95(self) -> float:
        """The least of them that at least 95% do not exceed."""
        ordered = sorted(self.milliseconds)
        return ordered[-(-95 * len(ordered) // 100) - 1]

    def __str__(self) -> str:
        keys = len(self.milliseconds)
        return f"slider to picture, {keys} keys: median {self.median:.0f} ms, p95 {self.p95:.0f} ms"


def press(page: Page, slider: Locator, picture: Locator, keys: list[str]) -> Waits:
    """Press keys on a slider's handle, each when the picture of the one before is seen.

    Raises TimeoutError when a key does not change the picture within 30 s.
    """
    slider.focus()
    waits = []
    for key in keys:
        picture.evaluate(WATCH)
        page.keyboard.press(key)
        waits.append(picture.evaluate("image => Promise.race([image.seen, image.late])"))
        if waits[-1] is None:
            raise TimeoutError(f"no new picture within 30 s after {key} was pressed")
    return Waits(waits)


WATCH = """image => {
  image.late = new Promise(done => setTimeout(done, 30000, null));
  image.seen = new Promise(done => {
    let pressed;
    document.addEventListener('keydown', () => { pressed = performance.now(); }, {capture: true, once: true});
    const observer = new MutationObserver(async () => {
      observer.disconnect();
      await image.decode();
      requestAnimationFrame(() => done(performance.now() - pressed));
    });
    observer.observe(image, {attributes: true, attributeFilter: ['src']});
  });
}"""
