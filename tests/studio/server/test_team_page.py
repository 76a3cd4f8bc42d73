"""A team in a real browser: invited, joined, labelling, reviewing, refused."""

import pytest

from tests.conftest import need, some_heavy
from tests.studio.server.conftest import PATIENCE, TOKEN, running

need("fastapi")
need("playwright")

LOOKS = some_heavy([("light", 1360), ("dark", 390)], [("dark", 390)])

from playwright.sync_api import expect  # noqa: E402

from goalward.studio import team as passphrase  # noqa: E402
from goalward.studio.server import Auth, ServedStudy  # noqa: E402
from goalward.studio.team import Team  # noqa: E402
from tests.studio.server.test_page import Person  # noqa: E402

WORDS = "four words of mine"
WIDE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture
def team(tmp_path, monkeypatch):
    monkeypatch.setattr(passphrase, "COST", 2**4)
    made = Team.create(tmp_path / "team.db")
    made.join(made.invite("Ann", "owner"), WORDS)
    yield made
    made.close()


@pytest.fixture
def served(study, team):
    return ServedStudy(study, Auth(TOKEN, port=1, team=team))


class Member(Person):
    """Somebody with a browser of their own."""

    def __init__(self, browser, **options):
        self.context = browser.new_context(**options)
        self.context.set_default_timeout(PATIENCE)
        self.page, self.errors = self.context.new_page(), []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))

    def sign_in(self, address, name, words=WORDS):
        self.page.goto(f"{address}/")
        self.page.fill("#name", name)
        self.page.fill("#passphrase", words)
        self.page.click("text=Sign in >> nth=-1")

    def invite(self, address, name, role):
        self.page.goto(f"{address}/people")
        self.page.wait_for_selector("main[data-ready]")
        self.page.fill("#invite [name=name]", name)
        self.page.select_option("#invite select", role)
        self.page.click("#invite button.primary")
        self.page.wait_for_selector("#invited:not([hidden])")
        return self.page.input_value("#link")

    def join(self, link):
        self.page.goto(link)
        self.page.fill("#passphrase", WORDS)
        self.page.fill("#again", WORDS)
        self.page.click("button.primary")
        self.ready()


def test_invited_joined_labelled_reviewed_and_refused(chromium, served, study, team):
    with running(served) as address:
        ann, bo, cleo = (Member(chromium) for _ in range(3))
        ann.sign_in(address, "ann", "not my passphrase")
        expect(ann.page.locator(".problem")).to_contain_text("name or the passphrase is wrong")
        ann.page.fill("#passphrase", WORDS)
        ann.page.click("button.primary")
        ann.ready()
        for person, name, role in ((bo, "Bo", "annotator"), (cleo, "Cleo", "reviewer")):
            person.join(ann.invite(address, name, role))
        rows = dict(bo.answer() for _ in range(3))
        bo.saved(3)
        assert {row: set(said) for row, said in study.state.standings.items()} == {
            row: {"Bo"} for row in rows
        }
        for offered in ("#who-button", "#export", "text=Scores", "#classes-button"):
            expect(bo.page.locator(offered)).to_be_hidden()
        bo.page.goto(f"{address}/scores")
        expect(bo.page.locator("h1")).to_have_text("Not with your role")
        assert bo.page.request.get(f"{address}/api/export").status == 403

        cleo.page.goto(f"{address}/review")
        expect(cleo.page.locator(".line")).to_have_count(3)
        expect(cleo.page.locator(".list")).to_contain_text("Bo")
        assert cleo.page.request.get(f"{address}/api/export").status == 200

        # Ann ends Bo's session; what Bo answers then waits, and is Bo's after signing in again.
        bo.page.goto(f"{address}/")
        bo.ready()
        ann.page.goto(f"{address}/people")
        ann.page.wait_for_selector("main[data-ready]")
        ann.page.click("[data-name=Bo] .revoke")
        expect(ann.page.locator("[data-name=Bo]")).to_contain_text("Not signed in anywhere")
        bo.page.keyboard.press("1")
        expect(bo.page.locator("#problem")).to_contain_text("Sign in")
        other = Member.__new__(Member)
        other.page, other.context = bo.context.new_page(), bo.context
        other.sign_in(address, "Bo")
        bo.saved(4)
        assert sum("Bo" in said for said in study.state.standings.values()) == 4

        # Somebody else in the same browser: nothing of Bo's goes under another name.
        other.page.goto(f"{address}/people")
        other.page.click("text=Sign out")
        other.sign_in(address, "Cleo")
        bo.page.keyboard.press("2")
        expect(bo.page.locator("#problem")).to_contain_text("cannot answer for Bo")
        assert not any("Cleo" in said for said in study.state.standings.values())
        expect(bo.page.locator("#saved")).to_contain_text("Kept in this browser")

        ann.page.click("[data-name=Cleo] .remove")
        ann.page.click("#sure button.primary")
        expect(ann.page.locator("[data-name=Cleo]")).to_have_count(0)
        assert team.members.person("Cleo") is None
        for person in (ann, bo, cleo):
            assert not person.errors
            person.context.close()


def test_a_passphrase_is_changed_on_the_page(chromium, served, team):
    with running(served) as address:
        ann = Member(chromium)
        ann.sign_in(address, "ann")
        ann.ready()
        ann.page.goto(f"{address}/people")
        ann.page.wait_for_selector("main[data-ready]")

        def change(old, new, again):
            for name, words in (("old", old), ("new", new), ("again", again)):
                ann.page.fill(f"#change [name={name}]", words)
            ann.page.click("#change button")

        change(WORDS, "another passphrase", "another pasphrase")
        expect(ann.page.locator("#problem")).to_contain_text("not the same")
        change("not the one", "another passphrase", "another passphrase")
        expect(ann.page.locator("#problem")).to_contain_text("present passphrase")
        change(WORDS, "another passphrase", "another passphrase")
        expect(ann.page.locator("#problem")).to_be_hidden()
        assert team.sign_in("ann", "another passphrase")
        ann.page.click("text=Sign out everywhere")
        expect(ann.page.locator("#name")).to_be_visible()
        assert not team.members.sessions_of("Ann")
        assert not ann.errors
        ann.context.close()


@pytest.mark.parametrize(("look", "width"), LOOKS)
def test_pages_of_a_team_keep_nobody_out(chromium, served, team, look, width):
    need("axe_playwright_python")
    from axe_playwright_python.sync_playwright import Axe

    team.join(
        team.invite("A person with a name that is as long as names can be", "reviewer"), WORDS
    )
    team.set_role("eve@corp.example", "annotator", study="4f" * 32)
    link = team.invite("Dan", "annotator")
    found = []

    def look_at(page, name):
        said = Axe().run(page).response
        found.extend((name, v["id"], v["nodes"][0]["html"]) for v in said["violations"])
        if width == 390 and page.evaluate(WIDE) > 0:
            found.append((name, "scrolls sideways"))

    with running(served) as address:
        ann = Member(chromium, viewport={"width": width, "height": 844}, color_scheme=look)
        ann.page.goto(f"{address}/join?invite={link}")
        look_at(ann.page, "join")
        ann.sign_in(address, "ann", "not my passphrase")
        ann.page.wait_for_selector(".problem")
        look_at(ann.page, "sign in")
        ann.sign_in(address, "ann")
        ann.ready()
        ann.invite(address, "Fay", "reviewer")
        look_at(ann.page, "people")
        ann.page.click("[data-name^=A\\ person] .remove")
        look_at(ann.page, "remove")
        dan = Member(chromium, viewport={"width": width, "height": 844}, color_scheme=look)
        dan.join(f"{address}/join?invite={link}")
        look_at(dan.page, "label")
        for path in ("/people", "/review", "/scores"):
            dan.page.goto(f"{address}{path}")
            look_at(dan.page, path)
        ann.context.close()
        dan.context.close()
    assert not found


def test_the_token_opens_the_page_from_its_form(chromium, study):
    with running(ServedStudy(study, Auth(TOKEN, port=1))) as address:
        person = Member(chromium)
        person.page.goto(f"{address}/login")
        person.page.fill("#token", TOKEN)
        person.page.click("button.primary")
        person.page.wait_for_selector("#who-dialog[open]")
        person.context.close()
